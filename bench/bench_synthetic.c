// The runtime against the simulator: 16 ranks whose layers only take time, in real
// time on however few cores, with links of latency and rate. Each line is one
// schedule; the ratio is measured iteration over simulated one, the median of five.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "common/number.h"
#include "runtime/run.h"
#include "runtime/synthetic.h"
#include "schedules/generate.h"
#include "schedules/lower.h"

enum { RANKS = 16, MICRO_BATCHES = 32, REPEATS = 5 };

// Stages are uneven: 4 to 5.5 ms forward, twice that backward.
static void fill_costs(struct cost_row *costs)
{
    for (uint32_t s = 0; s < RANKS; s++)
        costs[s] = (struct cost_row){ .forward_ns = 4000000 + s % 4 * 500000,
                                      .backward_ns = 8000000 + s % 4 * 1000000,
                                      .output_bytes = 1 << 18,
                                      .kept_forward_bytes = 1 << 16,
                                      .version_bytes = 1 << 12 };
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool measure(const struct schedule *lowered, const struct cost_row *costs, const struct network *network,
                    struct device *device, uint64_t *median_ns, double *bubble, struct error *error)
{
    struct synthetic synthetic[RANKS];
    struct stage stages[RANKS];
    uint64_t samples[REPEATS];
    for (uint32_t s = 0; s < RANKS; s++) {
        synthetic[s] = synthetic_from_costs(costs, RANKS, s);
        stages[s] = synthetic_stage(&synthetic[s]);
    }
    // The simulator's sends never hold their rank up, so nor do these.
    const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .network = network,
                                               .optimizer = { .kind = OPTIMIZER_SGD } };
    struct session *session = session_create(lowered, stages, device, &settings, error);
    bool good = session && session_step(session, error);  // once to warm up
    for (int i = 0; good && i < REPEATS; i++) {
        good = session_step(session, error);
        samples[i] = session_last(session)->iteration_ns;
        *bubble = session_last(session)->bubble.makespan;
    }
    session_free(session);
    if (good)
        qsort(samples, REPEATS, sizeof samples[0], ascending);
    *median_ns = good ? samples[REPEATS / 2] : 0;
    return good;
}

static bool compare(const char *name, const struct cost_row *costs, struct link link, struct device *device,
                    struct error *error)
{
    struct schedule *order = schedule_generate(name, RANKS, 1, MICRO_BATCHES, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct network *network = network_uniform(RANKS, link, error);
    struct simulation simulation = { 0 };
    uint64_t measured_ns = 0;
    double bubble = 0;
    const bool good = lowered && network
                   && schedule_simulate(lowered, costs, network, &simulation, NULL, error)
                   && measure(lowered, costs, network, device, &measured_ns, &bubble, error);
    if (good)
        printf("%-10s latency %6llu us  simulated %8.2f ms  measured %8.2f ms  ratio %.4f  makespan bubble %.3f and "
               "%.3f\n", name, (unsigned long long)link.latency_ns / 1000, (double)simulation.iteration_ns / 1e6,
               (double)measured_ns / 1e6, (double)measured_ns / (double)simulation.iteration_ns,
               simulation.bubble.makespan, bubble);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

int main(void)
{
    static const char *const names[] = { "gpipe", "1f1b", "pipedream" };
    const struct link links[] = { { 0, 0 }, { 300000, 1000000000 } };
    struct error error = { 0 };
    struct cost_row costs[RANKS];
    prctl(PR_SET_TIMERSLACK, 1);  // of the threads to come, too: wake them when asked, not 50 us later
    fill_costs(costs);
    struct device *device = device_open("cpu", &error);
    bool good = device != NULL;
    for (size_t n = 0; good && n < sizeof names / sizeof names[0]; n++)
        for (size_t l = 0; good && l < 2; l++)
            good = compare(names[n], costs, links[l], device, &error);
    if (!good)
        fprintf(stderr, "%s\n", error.text);
    device_close(device);
    return good ? 0 : error.kind;
}
