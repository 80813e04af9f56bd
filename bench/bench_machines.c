// Ranks on several machines, a process each, against the simulator. Layers only take time, and messages take as long
// as the link between the machines needs.
//
//     mpirun -n 2 --hostfile hosts bench_machines MICROSECONDS MEGABYTES-PER-SECOND      the link, as measured by
//                                                                                        weir profile --links
//
// Each line is one message size, for which the link takes 1, 5 or 20 ms. The ratio is measured iteration time over
// simulated, the median of five. A stage's forward takes 20 ms, its backward 40 ms.
//
// After that it measures the CPU use of ranks that wait for a slow rank: 20 ms again and again, and for longer times.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/synthetic_run.h"
#include "common/clock.h"
#include "common/number.h"
#include "device/device.h"
#include "runtime/groups/rank_places.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 5, MOST_RANKS = 16, MICRO_BATCHES = 8 };
static const uint64_t milliseconds[] = { 1, 5, 20 };  // of a message
static const uint64_t millisecond_ns = 1000000;

struct bench {
    struct link link;
    struct place *place;
    struct device *device;
    struct synthetic synthetic[MOST_RANKS];
};

static bool speaks(const struct bench *bench)
{
    return bench->place->group->rank == 0;
}

static struct session *open_session(struct bench *bench, const struct schedule *lowered, const struct cost_row *costs,
                                    struct error *error)
{
    struct stage stages[MOST_RANKS];
    synthetic_stages(costs, lowered->stages, bench->synthetic, stages);
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD }, .group = bench->place->group,
                                               .is_stuck = &bench->place->is_stuck };
    return session_create(lowered, stages, bench->device, &settings, error);
}

// --- against the simulator ------------------------------------------------------------------

static bool measure(struct bench *bench, const struct schedule *lowered, const struct cost_row *costs,
                    uint64_t times[REPEATS], struct error *error)
{
    struct session *session = open_session(bench, lowered, costs, error);
    const bool good = session && synthetic_run_steps(session, times, REPEATS, error);
    session_free(session);
    return good;
}

static bool compare(struct bench *bench, const struct schedule *lowered, uint64_t bytes, struct error *error)
{
    struct cost_row costs[MOST_RANKS];
    struct simulation simulation = { 0 };
    uint64_t times[REPEATS] = { 0 };
    for (uint32_t s = 0; s < lowered->stages; s++)
        costs[s] = (struct cost_row){ .forward_ns = 20 * millisecond_ns, .backward_ns = 40 * millisecond_ns,
                                      .output_bytes = bytes, .kept_forward_bytes = 1 << 16,
                                      .version_bytes = 1 << 12 };
    struct network *network = network_uniform(lowered->ranks, bench->link, error);
    const bool good = network && schedule_simulate(lowered, costs, network, &simulation, NULL, error)
                   && measure(bench, lowered, costs, times, error);
    const double simulated = (double)simulation.iteration_ns;
    if (good && speaks(bench))
        printf("%-8s %6llu KiB  simulated %8.2f ms  measured %8.2f ms  ratio %.4f  (%.4f to %.4f)\n", lowered->name,
               (unsigned long long)bytes >> 10, simulated / 1e6, (double)times[REPEATS / 2] / 1e6,
               (double)times[REPEATS / 2] / simulated, (double)times[0] / simulated,
               (double)times[REPEATS - 1] / simulated);
    simulation_clear(&simulation);
    network_free(network);
    return good;
}

// --- waiting --------------------------------------------------------------------------------

static uint64_t ns_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000 * millisecond_ns + (uint64_t)time.tv_usec * 1000;
}

// CPU time of all threads of this process.
static uint64_t process_cpu_ns(void)
{
    struct rusage used = { 0 };
    getrusage(RUSAGE_SELF, &used);
    return ns_of(used.ru_utime) + ns_of(used.ru_stime);
}

// The machine's own cost for a thread that sleeps a millisecond, a thousand times.
static void print_wake(void)
{
    const struct timespec pause = { .tv_nsec = (long)millisecond_ns };
    const uint64_t used_ns = clock_thread_cpu_ns();
    for (int i = 0; i < 1000; i++)
        nanosleep(&pause, NULL);
    printf("a wake-up costs %.1f us of a core here\n", (double)(clock_thread_cpu_ns() - used_ns) / 1e6);
}

static bool share_of_core(struct session *session, double *share, struct error *error)
{
    if (!session_step(session, error))  // once to warm up
        return false;
    const uint64_t from_ns = clock_now_ns(), used_ns = process_cpu_ns();
    const bool good = session_step(session, error);
    *share = (double)(process_cpu_ns() - used_ns) / (double)(clock_now_ns() - from_ns);
    return good;
}

// Stage 0 is slow and the other stages take hardly any time, so all wait for it.
static bool wait_for_first(struct bench *bench, const struct schedule *lowered, uint64_t slow_ns, struct error *error)
{
    struct cost_row costs[MOST_RANKS];
    const struct process_group *group = bench->place->group;
    double share = 0, shares[MOST_RANKS] = { 0 };
    for (uint32_t s = 0; s < lowered->stages; s++)
        costs[s] = (struct cost_row){ .forward_ns = s == 0 ? slow_ns : millisecond_ns / 10,
                                      .backward_ns = s == 0 ? slow_ns : millisecond_ns / 10,
                                      .output_bytes = 1 << 16, .kept_forward_bytes = 1 << 16,
                                      .version_bytes = 1 << 12 };
    struct session *session = open_session(bench, lowered, costs, error);
    const bool good = session && share_of_core(session, &share, error)
                   && group->all_gather(group->self, &share, sizeof share, shares, error);
    session_free(session);
    for (uint32_t rank = 1; good && speaks(bench) && rank < lowered->ranks; rank++)
        printf("rank %-2u waits for %4llu ms again and again: %5.2f %% of a core\n", rank,
               (unsigned long long)(slow_ns / millisecond_ns), 100 * shares[rank]);
    return good;
}

static bool work(void *self, struct place *place, struct error *error)
{
    struct bench *bench = self;
    bench->place = place;
    if (!place->group || place->group->ranks > MOST_RANKS)
        return error_set(error, "this is about 2 to %d processes, which mpirun starts", MOST_RANKS);
    struct schedule *order = schedule_generate("1f1b", place->group->ranks, 0, MICRO_BATCHES, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    bool good = lowered && (bench->device = device_open(place->device, error));
    for (size_t i = 0; good && i < sizeof milliseconds / sizeof milliseconds[0]; i++)
        good = compare(bench, lowered, round_to_256(bench->link.bytes_per_second / 1000 * milliseconds[i]), error);
    if (good && speaks(bench))
        print_wake();
    for (uint64_t slow_ns = 20 * millisecond_ns; good && slow_ns <= 500 * millisecond_ns; slow_ns *= 5)
        good = wait_for_first(bench, lowered, slow_ns, error);
    if (!place->is_stuck)
        device_close(bench->device);
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
    struct bench bench = { .link = { (uint64_t)(atof(arguments[1]) * 1e3), (uint64_t)(atof(arguments[2]) * 1e6) } };
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
