// The runtime against the simulator: ranks whose layers only take time, in real time on any number of cores, with
// links of latency and rate. Each line is one schedule, of all there are. The ratio is measured iteration time over
// simulated, the median of five.
//
//     bench_synthetic [RANKS [SCHEDULE]]       default: 8 and 16 ranks, all schedules
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/synthetic_run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 5 };

struct bench {
    struct device *device;
    uint32_t ranks;
    const char *only;  // a schedule's name, or NULL
    double worst, worst_least;  // the highest median, and the highest of the minima of five
    uint32_t lines;
};

// Stages are uneven: 4 to 5.5 ms forward, and a little more for each half of the backward. A group takes less than
// its parts. With split sequences each part takes this time, since shorter sleeps would measure how long threads need
// to wake up.
static void fill_costs(struct cost_row *costs, uint32_t stages, uint32_t splits)
{
    for (uint32_t s = 0; s < stages; s++) {
        const uint64_t forward_ns = (4000000 + s % 4 * 500000) * splits;
        costs[s] = (struct cost_row){ .forward_ns = forward_ns,
                                      .backward_ns = 2 * forward_ns,
                                      .backward_input_ns = forward_ns + forward_ns / 20,
                                      .backward_weight_ns = forward_ns - forward_ns / 20,
                                      .overlapped_ns = 5 * forward_ns / 2,
                                      .reduce_ns = 3000000,
                                      .step_ns = 1000000,
                                      .output_bytes = 1 << 16,  // for copying, up to 16 at a time, on few cores
                                      .kept_forward_bytes = 1 << 16,
                                      .kept_weight_bytes = 1 << 15,
                                      .version_bytes = 1 << 12 };
    }
}

static bool compare(struct bench *bench, const struct schedule *lowered, struct link link, struct error *error)
{
    struct cost_row *costs = calloc(lowered->stages, sizeof *costs);
    struct network *network = costs ? network_uniform(lowered->ranks, link, error) : NULL;
    struct simulation simulation = { 0 };
    uint64_t samples[REPEATS] = { 0 };
    if (costs)
        fill_costs(costs, lowered->stages, lowered->splits);
    const struct synthetic_run run = { lowered, costs, network, bench->device };
    const bool good = network && schedule_simulate(lowered, costs, network, &simulation, NULL, error)
                   && synthetic_run(&run, samples, REPEATS, error);
    if (good) {
        const double ratio = (double)samples[REPEATS / 2] / (double)simulation.iteration_ns;
        printf("%-16s p %2u  m %3u  latency %3llu us  simulated %8.2f ms  measured %8.2f ms  ratio %.4f  (%.4f to "
               "%.4f)\n",
               lowered->name, lowered->ranks, lowered->micro_batches, (unsigned long long)link.latency_ns / 1000,
               (double)simulation.iteration_ns / 1e6, (double)samples[REPEATS / 2] / 1e6, ratio,
               (double)samples[0] / (double)simulation.iteration_ns,
               (double)samples[REPEATS - 1] / (double)simulation.iteration_ns);
        fflush(stdout);
        const double least = (double)samples[0] / (double)simulation.iteration_ns;
        bench->worst = ratio > bench->worst ? ratio : bench->worst;
        bench->worst_least = least > bench->worst_least ? least : bench->worst_least;
        bench->lines++;
    }
    simulation_clear(&simulation);
    network_free(network);
    free(costs);
    return good;
}

// With `replicas`, each stage is on two ranks.
static bool run_schedule(struct bench *bench, const struct generator *generator, bool replicas, struct error *error)
{
    static const struct link links[] = { { 0, 0 }, { 300000, 250000000 } };
    static const uint32_t twos[] = { 2, 2, 2, 2, 2, 2, 2, 2 };
    struct generate_request request = { .ranks = generator_ranks(generator, bench->ranks),
                                        .micro_batches = 2 * bench->ranks };
    if (replicas) {
        request.replicas = twos;
        request.stages = bench->ranks / 2;
    }
    struct schedule *order = schedule_generate_as(generator->name, &request, error);
    if (order && replicas)
        snprintf(order->name, sizeof order->name, "%s, twice", generator->name);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    bool good = lowered != NULL;
    for (size_t l = 0; good && l < sizeof links / sizeof links[0]; l++)
        good = compare(bench, lowered, links[l], error);
    schedule_free(lowered);
    schedule_free(order);
    return good || error_at(error, "%s", generator->name);
}

static bool run_all(struct bench *bench, uint32_t ranks, struct error *error)
{
    bench->ranks = ranks;
    for (const struct generator *generator = generators; generator->name; generator++)
        for (int replicas = 0; replicas <= (generator->takes_replicas && ranks <= 16); replicas++)
            if ((!bench->only || strcmp(bench->only, generator->name) == 0)
                && !run_schedule(bench, generator, replicas, error))
                return false;
    return true;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    prctl(PR_SET_TIMERSLACK, 1);  // for new threads too: wake up when asked, not 50 us later
    struct bench bench = { .device = device_open("cpu", &error), .only = count > 2 ? arguments[2] : NULL };
    bool good = bench.device != NULL;
    if (count > 1)
        good = good && run_all(&bench, (uint32_t)strtoul(arguments[1], NULL, 10), &error);
    else
        good = good && run_all(&bench, 8, &error) && run_all(&bench, 16, &error);
    if (good)
        printf("%u comparisons: the highest ratio is %.4f, and %.4f of the quickest runs\n", bench.lines, bench.worst,
               bench.worst_least);
    device_close(bench.device);
    return good ? 0 : fail(&error);
}
