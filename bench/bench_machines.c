// Ranks on machines, a process each, against the simulator: layers that only take time, and messages that take what the
// link between the machines does.
//
//     mpirun -n 2 --hostfile hosts bench_machines MICROSECONDS MEGABYTES-PER-SECOND      the link, as measured by
//                                                                                        weir profile --links
//
// Each line is one size of a message; the ratio is measured iteration over simulated one, the median of five. A stage's
// forward takes 20 ms, its backward 40 ms.
#include <stdio.h>
#include <stdlib.h>

#include "bench/idle_stage.h"
#include "device/device.h"
#include "runtime/rank_places.h"
#include "runtime/synthetic.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 5, MOST_RANKS = 16 };
static const uint64_t sizes[] = { 64 << 10, 512 << 10, 2 << 20 };

struct bench {
    struct link link;
};

static bool measure(const struct schedule *lowered, const struct cost_row *costs, struct device *device,
                    struct place *place, double samples[REPEATS], struct error *error)
{
    struct synthetic synthetic[MOST_RANKS];
    struct stage stages[MOST_RANKS];
    for (uint32_t s = 0; s < lowered->stages; s++) {
        synthetic[s] = synthetic_from_costs(costs, lowered->stages, s);
        stages[s] = synthetic_stage(&synthetic[s]);
    }
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD }, .group = place->group,
                                               .is_stuck = &place->is_stuck };
    struct session *session = session_create(lowered, stages, device, &settings, error);
    bool good = session && session_step(session, error);  // once to warm up
    for (int i = 0; good && i < REPEATS; i++) {
        good = session_step(session, error);
        samples[i] = good ? (double)session_last(session)->iteration_ns : 0;
    }
    session_free(session);
    samples_sort(samples, REPEATS);
    return good;
}

static bool compare(const struct bench *bench, const struct schedule *lowered, uint64_t bytes, struct device *device,
                    struct place *place, struct error *error)
{
    struct cost_row costs[MOST_RANKS];
    struct simulation simulation = { 0 };
    double samples[REPEATS] = { 0 };
    for (uint32_t s = 0; s < lowered->stages; s++)
        costs[s] = (struct cost_row){ .forward_ns = 20000000, .backward_ns = 40000000, .output_bytes = bytes,
                                      .kept_forward_bytes = 1 << 16, .version_bytes = 1 << 12 };
    struct network *network = network_uniform(lowered->ranks, bench->link, error);
    const bool good = network && schedule_simulate(lowered, costs, network, &simulation, NULL, error)
                   && measure(lowered, costs, device, place, samples, error);
    const double simulated = (double)simulation.iteration_ns;
    if (good && place->group->rank == 0)
        printf("%-8s %5llu KiB  simulated %8.2f ms  measured %8.2f ms  ratio %.4f  (%.4f to %.4f)\n", lowered->name,
               (unsigned long long)bytes >> 10, simulated / 1e6, samples[REPEATS / 2] / 1e6,
               samples[REPEATS / 2] / simulated, samples[0] / simulated, samples[REPEATS - 1] / simulated);
    simulation_clear(&simulation);
    network_free(network);
    return good;
}

static bool work(void *self, struct place *place, struct error *error)
{
    struct device *device = NULL;
    if (!place->group || place->group->ranks > MOST_RANKS)
        return error_set(error, "this is about 2 to %d processes, which mpirun starts", MOST_RANKS);
    struct schedule *order = schedule_generate("1f1b", place->group->ranks, 0, 8, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    bool good = lowered && (device = device_open(place->device, error));
    for (size_t i = 0; good && i < sizeof sizes / sizeof sizes[0]; i++)
        good = compare(self, lowered, sizes[i], device, place, error);
    if (!place->is_stuck)
        device_close(device);
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct launch launch;
    if (count != 3) {
        fprintf(stderr, "usage: mpirun .. bench_machines MICROSECONDS MEGABYTES-PER-SECOND\n");
        return launch_from_environment(&launch, &error) && launch.ranks == 1 ? 0 : 2;
    }
    struct bench bench = { { (uint64_t)(atof(arguments[1]) * 1e3), (uint64_t)(atof(arguments[2]) * 1e6) } };
    const struct places_request request = { .device = "cpu:queued", .named = "bench_machines" };
    struct places *places = launch_from_environment(&launch, &error) ? places_open(&request, &launch, &error) : NULL;
    const bool good = places && places_do(places, work, &bench, &error);
    if (!good)
        fprintf(stderr, "bench_machines: %s\n", error.text);
    fflush(NULL);
    if (places_close(places))
        _Exit(3);
    return good ? 0 : (int)error.kind;
}
