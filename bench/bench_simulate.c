// How many compute actions (F and B) per second the simulator does on one core: 1F1B on 128 ranks with 8,192
// micro-batches. The first line is everything: costs, bytes and links, with every SEND and RECV explicit and part of
// the work. Times are thread CPU time, best of several runs, so that a busy machine matters less. The second line is
// the peak memory of the process up to then.
#include <stdio.h>
#include <sys/resource.h>

#include "bench/fail.h"
#include "common/clock.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

enum { RANKS = 128, MICRO_BATCHES = 8192, RUNS = 7 };

static void fill_costs(struct cost_row *costs)
{
    for (unsigned s = 0; s < RANKS; s++)
        costs[s] = (struct cost_row){ .forward_ns = 18522000 + s, .backward_ns = 27423000 + s, .output_bytes = 4194304,
                                      .kept_forward_bytes = 67108864, .fixed_bytes = 1073741824 };
}

static void report(const char *what, double actions, uint64_t ns)
{
    printf("%s: %.1f M compute actions/s\n", what, actions * 1e3 / (double)ns);
}

static uint64_t best(uint64_t before, uint64_t since)
{
    const uint64_t took = clock_thread_cpu_ns() - since;
    return took < before ? took : before;
}

// Only times, for an order that was analysed before: the work of a planner for each candidate.
static bool bench_again(const struct schedule *schedule, const struct network *network, const struct cost_row *costs,
                        const char *what, struct error *error)
{
    uint64_t took = UINT64_MAX, sum = 0;
    struct simulator *simulator = simulator_create(schedule, network, error);
    if (!simulator)
        return false;
    for (int run = 0; run < RUNS; run++) {
        const uint64_t since = clock_thread_cpu_ns();
        sum += simulator_iteration_ns(simulator, costs);
        took = best(took, since);
    }
    simulator_free(simulator);
    report(what, 2.0 * RANKS * MICRO_BATCHES, took);
    return sum > 0;
}

// From a schedule to its time, including the analysis of its order.
static bool bench_once(const struct schedule *schedule, const struct network *network, const struct cost_row *costs,
                       const char *what, struct error *error)
{
    uint64_t took = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        const uint64_t since = clock_thread_cpu_ns();
        struct simulator *simulator = simulator_create(schedule, network, error);
        if (!simulator || simulator_iteration_ns(simulator, costs) == 0)
            return false;
        simulator_free(simulator);
        took = best(took, since);
    }
    report(what, 2.0 * RANKS * MICRO_BATCHES, took);
    return true;
}

// All results: busy times, bytes over time, bubbles, the longest chain.
static bool bench_whole(const struct schedule *schedule, const struct network *network, const struct cost_row *costs,
                        const char *what, struct error *error)
{
    uint64_t took = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        const uint64_t since = clock_thread_cpu_ns();
        struct simulation simulation;
        if (!schedule_simulate(schedule, costs, network, &simulation, NULL, error))
            return false;
        simulation_clear(&simulation);
        took = best(took, since);
    }
    report(what, 2.0 * RANKS * MICRO_BATCHES, took);
    return true;
}

// Memory of the schedule itself, lowered, and of everything that its simulation keeps.
static void report_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("memory: %.1f bytes per compute action, the schedule included\n",
           (double)usage.ru_maxrss * 1024 / (2.0 * RANKS * MICRO_BATCHES));
}

// Neighbours share one link for both directions: times decide which message goes first.
static void share_links(struct network *network)
{
    for (uint32_t from = 0; from < RANKS; from++) {
        for (uint32_t to = 0; to < from; to++)
            network->link_of[from * RANKS + to] = network->link_of[to * RANKS + from];
    }
}

int main(void)
{
    struct error error = { 0 };
    struct cost_row costs[RANKS];
    fill_costs(costs);
    struct schedule *order = schedule_generate("1f1b", RANKS, 1, MICRO_BATCHES, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    struct network *network = network_uniform(RANKS, (struct link){ 3000, 25000000000 }, &error);
    if (!lowered || !network)
        return fail(&error);
    bool good = bench_whole(lowered, network, costs, "costs, bytes, links, sends", &error);
    report_memory();
    good = good && bench_whole(order, network, costs, "the same, sends implied", &error)
        && bench_once(lowered, network, costs, "time only", &error)
        && bench_once(order, network, costs, "time only, sends implied", &error)
        && bench_again(lowered, network, costs, "time of a known order", &error)
        && bench_again(order, network, costs, "time of a known order, sends implied", &error);
    share_links(network);
    good = good && bench_again(order, network, costs, "time of a known order, sends implied, shared links", &error);
    network_free(network);
    schedule_free(lowered);
    schedule_free(order);
    return good ? 0 : fail(&error);
}
