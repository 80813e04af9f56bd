// How good the orders are that the search finds, and how fast it is. One part has the rows of the tables in the
// zero-bubble papers, in microseconds. The results of the authors' heuristic are typed from their tables, and are
// exact to the microsecond. The other part has stages that differ at random. Times are thread CPU time of the whole
// search, best of several runs.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/fail.h"
#include "common/clock.h"
#include "common/random.h"
#include "schedules/search/order_search.h"
#include "schedules/simulate.h"

enum { RUNS = 5, MOST_STAGES = 256 };

// Times in us; room in micro-batches of a stage. A micro-batch has 34 h + 5 a s bytes with s = 1024, of which 32 h
// stay after I.
static const struct row {
    const char *name;
    uint32_t ranks, micro_batches, f, i, w, c, hidden, heads, chunks, room;
    uint64_t authors;  // 0: not published
} rows[] = {
    { "ZB-1p 1.5B", 8, 24, 18522, 18086, 9337, 601, 2304, 24, 1, 8, 1310405 },
    { "ZB-1p 1.5B", 8, 32, 18513, 18086, 9331, 626, 2304, 24, 1, 8, 1678164 },
    { "ZB-1p 1.5B", 8, 64, 18546, 18097, 9321, 762, 2304, 24, 1, 8, 3154286 },
    { "ZB-1p 14.6B", 16, 48, 11347, 11248, 8132, 377, 5120, 40, 1, 16, 1714461 },
    { "ZB-1p 14.6B", 16, 64, 11307, 11254, 8101, 379, 5120, 40, 1, 16, 2202008 },
    { "ZB-1p 14.6B", 16, 128, 11325, 11308, 8109, 378, 5120, 40, 1, 16, 4175516 },
    { "ZB-2p 1.5B", 8, 24, 18522, 18086, 9337, 601, 2304, 24, 1, 16, 1152599 },
    { "ZB-2p 1.5B", 8, 32, 18513, 18086, 9331, 626, 2304, 24, 1, 16, 1475535 },
    { "ZB-2p 1.5B", 8, 64, 18546, 18097, 9321, 762, 2304, 24, 1, 16, 2949221 },
    { "ZB-2p 14.6B", 16, 48, 11347, 11248, 8132, 377, 5120, 40, 1, 32, 1484721 },
    { "ZB-2p 14.6B", 16, 64, 11307, 11254, 8101, 379, 5120, 40, 1, 32, 1972943 },
    { "ZB-2p 14.6B", 16, 128, 11325, 11308, 8109, 378, 5120, 40, 1, 32, 3946061 },
    { "ZB-V h=4096", 16, 48, 14407, 14380, 9676, 1610, 4096, 32, 2, 32, 3969197 },
    { "ZB-V h=4096", 16, 64, 14412, 14393, 9688, 1621, 4096, 32, 2, 32, 5204741 },
    { "ZB-V h=4096", 16, 128, 14316, 14306, 9639, 1619, 4096, 32, 2, 32, 10071047 },
    { "room of 1 p", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 1, 32, 0 },
    { "room of 1.5 p", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 1, 48, 0 },
    { "room of 2 p", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 1, 64, 0 },
    { "room of 0.6 p", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 1, 19, 0 },
    { "V, room of 1 p", 32, 256, 9447, 9644, 7193, 887, 6144, 48, 2, 64, 0 },
    { "V, V-Half's room", 32, 256, 9447, 9644, 7193, 887, 6144, 48, 2, 34, 0 },
    { "V, V-Min's room", 32, 256, 9447, 9644, 7193, 887, 6144, 48, 2, 24, 0 },
};

// The best time of several runs, which all find the same order.
static bool search(const struct order_request *request, struct order_found *found, uint64_t *took_ns,
                   struct error *error)
{
    *took_ns = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        if (run > 0)
            order_found_clear(found);
        const uint64_t since = clock_thread_cpu_ns();
        if (!order_search(request, found, error))
            return false;
        const uint64_t took = clock_thread_cpu_ns() - since;
        *took_ns = took < *took_ns ? took : *took_ns;
    }
    return true;
}

static bool bench_row(const struct row *row, struct error *error)
{
    struct cost_row costs[MOST_STAGES];
    for (uint32_t s = 0; s < row->ranks * row->chunks; s++)
        costs[s] = (struct cost_row){ .forward_ns = row->f * UINT64_C(1000),
                                      .backward_input_ns = row->i * UINT64_C(1000),
                                      .backward_weight_ns = row->w * UINT64_C(1000),
                                      .backward_ns = (row->i + row->w) * UINT64_C(1000),
                                      .kept_forward_bytes = 34 * row->hidden + 5 * 1024 * row->heads,
                                      .kept_weight_bytes = 32 * row->hidden };
    const struct order_request request = {
        .ranks = row->ranks, .micro_batches = row->micro_batches, .chunks = row->chunks, .costs = costs,
        .placement = row->chunks == 2 ? PLACEMENT_V : PLACEMENT_ONE_WAY, .latency_ns = row->c * UINT64_C(1000),
        .memory_bytes = row->room * costs[0].kept_forward_bytes,
    };
    struct order_found found;
    uint64_t took;
    if (!search(&request, &found, &took, error))
        return false;
    printf("%-17s %4u %5u %12.3f %12.3f  %6.3f %%  ", row->name, row->ranks, row->micro_batches,
           (double)found.time_ns / 1e3, (double)found.bound_ns / 1e3, 100 * order_gap(&found));
    if (row->authors)
        printf("%9" PRIu64 "  %.5f", row->authors, (double)found.time_ns / 1e3 / (double)row->authors);
    else
        printf("        -        -");
    printf("  %8.2f  %s\n", (double)took / 1e6, found.method);
    order_found_clear(&found);
    return true;
}

// Costs within a factor of two of each other, room for p to 2p micro-batches.
static bool bench_random(uint32_t ranks, uint32_t micro_batches, unsigned trials, struct error *error)
{
    uint64_t seed = 1, took_all = 0;
    unsigned proved = 0;
    double gaps = 0, worst = 0;
    for (unsigned trial = 0; trial < trials; trial++) {
        struct cost_row costs[MOST_STAGES];
        for (uint32_t s = 0; s < ranks; s++) {
            const uint64_t i = 10000 + random_below(&seed, 10000), w = 7000 + random_below(&seed, 7000);
            costs[s] = (struct cost_row){ .forward_ns = 10000 + random_below(&seed, 10000), .backward_input_ns = i,
                                          .backward_weight_ns = w, .backward_ns = i + w, .kept_forward_bytes = 100,
                                          .kept_weight_bytes = 40 };
        }
        const struct order_request request = { .ranks = ranks, .micro_batches = micro_batches, .chunks = 1,
                                               .costs = costs, .latency_ns = random_below(&seed, 1000),
                                               .memory_bytes = 100 * (ranks + random_below(&seed, ranks + 1)) };
        struct order_found found;
        const uint64_t since = clock_thread_cpu_ns();
        if (!order_search(&request, &found, error))
            return false;
        took_all += clock_thread_cpu_ns() - since;
        proved += found.proved;
        gaps += order_gap(&found);
        worst = order_gap(&found) > worst ? order_gap(&found) : worst;
        order_found_clear(&found);
    }
    printf("%3u ranks, %3u micro-batches: %u of %u proved, gap %.3f %% on average, %.3f %% at most, %.2f ms each\n",
           ranks, micro_batches, proved, trials, 100 * gaps / trials, 100 * worst, (double)took_all / trials / 1e6);
    return true;
}

// The time of an order that was found for some costs, with other costs.
static bool replay(const struct order_found *found, const struct order_request *request, uint64_t *span_ns,
                   struct error *error)
{
    struct simulation simulation;
    struct network *network =
        network_uniform(request->ranks, (struct link){ .latency_ns = request->latency_ns }, error);
    const bool good = network && schedule_simulate(found->schedule, request->costs, network, &simulation, NULL, error);
    if (good) {
        *span_ns = simulation.max_span_ns;
        simulation_clear(&simulation);
    }
    network_free(network);
    return good;
}

// A last stage that takes 1.4 times as long as the others. It is planned with its real cost and, as in the authors'
// runtime, with that of the median stage.
static bool bench_median(struct error *error)
{
    enum { RANKS = 8 };
    const struct cost_row row = { .forward_ns = 18522000, .backward_input_ns = 18086000, .backward_weight_ns = 9337000,
                                  .backward_ns = 27423000, .kept_forward_bytes = 201216, .kept_weight_bytes = 73728 };
    struct cost_row costs[RANKS], median[RANKS];
    for (uint32_t s = 0; s < RANKS; s++)
        costs[s] = median[s] = row;
    costs[RANKS - 1].forward_ns += costs[RANKS - 1].forward_ns * 2 / 5;
    costs[RANKS - 1].backward_input_ns += costs[RANKS - 1].backward_input_ns * 2 / 5;
    costs[RANKS - 1].backward_weight_ns += costs[RANKS - 1].backward_weight_ns * 2 / 5;
    for (uint32_t times = 1; times <= 2; times++) {
        struct order_request request = { .ranks = RANKS, .micro_batches = 32, .chunks = 1, .costs = median,
                                         .latency_ns = 601000, .memory_bytes = times * RANKS * row.kept_forward_bytes };
        struct order_found planned, found;
        uint64_t span_ns;
        if (!order_search(&request, &planned, error))
            return false;
        request.costs = costs;
        if (!replay(&planned, &request, &span_ns, error) || !order_search(&request, &found, error))
            return false;
        printf("room of %u p: planned for the median stage it takes %.3f ms and promises %.3f; for each stage's own, "
               "%.3f ms, gap %.3f %%\n", times, (double)span_ns / 1e6, (double)planned.time_ns / 1e6,
               (double)found.time_ns / 1e6, 100 * order_gap(&found));
        order_found_clear(&planned);
        order_found_clear(&found);
    }
    return true;
}

int main(void)
{
    struct error error = { 0 };
    bool good = true;
    printf("                     p     m    found, us    bound, us       gap    authors    ratio        ms  by\n");
    for (size_t i = 0; good && i < sizeof rows / sizeof rows[0]; i++)
        good = bench_row(&rows[i], &error);
    printf("\nstages that differ at random, one per rank:\n");
    good = good && bench_random(4, 6, 200, &error) && bench_random(4, 12, 50, &error)
        && bench_random(8, 24, 20, &error) && bench_random(16, 64, 10, &error) && bench_random(32, 256, 6, &error);
    printf("\na last stage of 1.4 times the others, 8 ranks, 32 micro-batches:\n");
    good = good && bench_median(&error);
    return good ? 0 : fail(&error);
}
