#include "profiler/links.h"

#include <assert.h>
#include <stdlib.h>

#include "common/json.h"
#include "common/number.h"
#include "profiler/measure.h"

const uint64_t link_usual_sizes[LINK_SIZES] = { 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216 };

// A size takes long if there and back takes long_ns. A stream should take stream_ns. The best of several streams
// counts, since any disturbance only slows a stream down.
static const uint64_t long_ns = 100000000, stream_ns = 250000000;
enum { FEW_REPEATS = 3, STREAMS = 3, FEWEST_MESSAGES = 2, MOST_MESSAGES = 32 };

// --- the line ---------------------------------------------------------------------------------

// How far the line is from a point, in thousandths of the point.
static uint64_t distance(uint64_t bytes, uint64_t ns, const struct link_cost *cost)
{
    const uint64_t stated = transfer_ns(bytes, cost->bytes_per_second, cost->latency_ns);
    return multiply_clamped(stated > ns ? stated - ns : ns - stated, 1000) / (ns ? ns : 1);
}

static void judge(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost)
{
    cost->worst_permille = cost->worst_bytes = cost->worst_ns = cost->least_good_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t permille = distance(bytes[i], ns[i], cost);
        if (permille >= cost->worst_permille) {
            cost->worst_permille = permille;
            cost->worst_bytes = bytes[i];
            cost->worst_ns = ns[i];
        }
        if (permille > LINK_POOR_PERMILLE)
            cost->least_good_bytes = 0;
        else if (cost->least_good_bytes == 0)
            cost->least_good_bytes = bytes[i];
    }
}

// The latency a with the least sum of ((a + r - y) / y)^2. Here r is the time of the bytes at the known bandwidth.
// The weights are w = 1 / y^2, so a = Sw(y - r) / Sw. Messages that are faster than the bandwidth are left out.
void link_fit(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost)
{
    double sw = 0, swa = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t of_bytes_ns = transfer_ns(bytes[i], cost->bytes_per_second, 0);
        const double w = ns[i] ? 1 / ((double)ns[i] * (double)ns[i]) : 1;
        if (ns[i] < of_bytes_ns)
            continue;
        sw += w;
        swa += w * (double)(ns[i] - of_bytes_ns);
    }
    cost->latency_ns = sw > 0 ? (uint64_t)(swa / sw + 0.5) : 0;
    judge(bytes, ns, count, cost);
}

// --- there and back ---------------------------------------------------------------------------

// The median time of one way.
static bool time_size(const struct link_measured *what, uint64_t bytes, uint64_t *samples, uint64_t repeats,
                      uint64_t *ns, struct error *error)
{
    uint64_t uncounted;
    if (!what->ping_pong(what->self, bytes, &uncounted, error))
        return false;
    for (uint64_t i = 0; i < repeats; i++)
        if (!what->ping_pong(what->self, bytes, &samples[i], error))
            return false;
    *ns = spread_of(samples, repeats).median_ns / 2;
    return what->tell(what->self, ns, error);
}

// Predicts from the size before whether a size takes long.
static bool takes_long(const uint64_t *sizes, const uint64_t *ns, size_t i)
{
    return i > 0 && 2 * (double)ns[i - 1] * (double)sizes[i] / (double)sizes[i - 1] > (double)long_ns;
}

// Reduces *count to the number of sizes that are not left out.
static bool time_sizes(const struct link_measured *what, const uint64_t *sizes, size_t *count, uint64_t *samples,
                       uint64_t repeats, uint64_t *ns, struct error *error)
{
    for (size_t i = 0; i < *count; i++) {
        const bool is_long = takes_long(sizes, ns, i);
        if (is_long && i >= LINK_LEAST_SIZES)
            *count = i;
        else if (!time_size(what, sizes[i], samples, is_long ? min_u64(repeats, FEW_REPEATS) : repeats, &ns[i], error))
            return error_at(error, "%llu bytes", (unsigned long long)sizes[i]);
    }
    return true;
}

// --- one after the other -----------------------------------------------------------------------

// Times how much longer twice as many messages take. What a token bucket lets pass first, and the way of the last
// message, are in both times. If the second stream happens not to take longer enough, half of its time is nearer the
// truth.
static bool time_stream(const struct link_measured *what, enum link_way way, uint64_t bytes, uint64_t count,
                        uint64_t *ns, struct error *error)
{
    uint64_t once_ns, twice_ns;
    if (!what->stream(what->self, way, bytes, count, &once_ns, error)
        || !what->stream(what->self, way, bytes, 2 * count, &twice_ns, error))
        return false;
    *ns = twice_ns - (once_ns < twice_ns / 2 ? once_ns : twice_ns / 2);
    return true;
}

static bool time_way(const struct link_measured *what, enum link_way way, uint64_t bytes, uint64_t count,
                     uint64_t *bytes_per_second, struct error *error)
{
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < STREAMS; i++) {
        uint64_t ns;
        if (!time_stream(what, way, bytes, count, &ns, error))
            return error_at(error, "%llu messages of %llu bytes", (unsigned long long)count, (unsigned long long)bytes);
        best_ns = ns < best_ns ? ns : best_ns;
    }
    const double rate = 1e9 * (double)bytes * (double)count / (double)(best_ns ? best_ns : 1);
    *bytes_per_second = rate < 1 ? 1 : rate > (double)JSON_MAX ? JSON_MAX : (uint64_t)(rate + 0.5);
    return what->tell(what->self, bytes_per_second, error);
}

static bool time_ways(const struct link_measured *what, uint64_t bytes, uint64_t largest_ns, struct link_cost *cost,
                      struct error *error)
{
    uint64_t rates[LINK_WAYS], count = stream_ns / (largest_ns ? largest_ns : 1) + 1;
    count = count < FEWEST_MESSAGES ? FEWEST_MESSAGES : min_u64(count, MOST_MESSAGES);
    for (enum link_way way = LINK_THERE; way < LINK_WAYS; way++)
        if (!time_way(what, way, bytes, count, &rates[way], error))
            return false;
    cost->there_bytes_per_second = rates[LINK_THERE];
    cost->back_bytes_per_second = rates[LINK_BACK];
    cost->both_bytes_per_second = rates[LINK_BOTH];
    cost->bytes_per_second = min_u64(rates[LINK_THERE], rates[LINK_BACK]);
    return true;
}

bool measure_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count, uint64_t repeats,
                  struct link_cost *cost, struct error *error)
{
    assert(size_count >= LINK_LEAST_SIZES && repeats > 0);
    uint64_t *samples = calloc(repeats, sizeof samples[0]);
    uint64_t *ns = calloc(size_count, sizeof ns[0]);
    *cost = (struct link_cost){ 0 };
    const bool good = ((samples && ns) || error_no_memory(error, "the samples of a link"))
                   && time_sizes(what, sizes, &size_count, samples, repeats, ns, error)
                   && time_ways(what, sizes[size_count - 1], ns[size_count - 1], cost, error);
    if (good)
        link_fit(sizes, ns, size_count, cost);
    free(samples);
    free(ns);
    return good;
}
