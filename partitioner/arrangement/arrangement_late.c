// How late the last rank of a stage gets its first micro-batch at least, or the first rank
// is rid of its last: of k ranks that have the most micro-batches, n = k - 1 micro-batches
// come or go in between, and a stage t in front of it does n / r_t of them, rounded down,
// one after the other. For each n, and each of a row of limits c on that time,
//
//     reach[u]     layers that stages on at most u devices can cover if none of them is
//                  within its paths' limit only by taking (n / r_t) B_t > c
//
// A stage in front of which there are more layers than that finds it later than c. What is
// known so under a limit for all paths is known for every lower one.
#include "partitioner/arrangement/arrangement_reach.h"

#include <stdlib.h>

enum { MOST_BETWEEN = 24, LIMITS = 24 };

struct late {
    uint32_t devices, micro_batches;
    uint64_t unit_ns;             // between two limits, for each micro-batch in between
    uint64_t forward_permille;    // of B, that F is at least, in each layer
    uint64_t under_ns;
    uint32_t *reach[MOST_BETWEEN + 1];  // [limit * (devices + 1) + used]
};

void late_free(struct late *late)
{
    for (uint32_t n = 0; late && n <= MOST_BETWEEN; n++)
        free(late->reach[n]);
    free(late);
}

static uint32_t between(uint32_t micro_batches, uint32_t ranks)
{
    return (micro_batches % ranks ? micro_batches % ranks : ranks) - 1;
}

// The most layers that a stage from `first` on can have within the limits.
static uint32_t furthest(const struct floor *floor, struct place place, uint64_t most_ns)
{
    const uint64_t *backward = floor->backward;
    uint32_t low = place.first, high = floor->bounds->layers + 1;
    while (high - low > 1) {
        place.end = low + (high - low) / 2;
        if (backward[place.end] - backward[place.first] <= most_ns
            && floor_path(floor, &floor->bounds->of[0], &place) <= floor->limit_ns)
            low = place.end;
        else
            high = place.end;
    }
    while (low > place.first && !floor->bounds->can_cut[low])
        low--;
    return low;
}

static void reach_under(const struct floor *floor, uint32_t n, uint64_t limit_ns, uint32_t *reach)
{
    const uint32_t devices = floor->bounds->request->ranks;
    for (uint32_t used = 0; used <= devices; used++) {
        if (used > 0 && reach[used - 1] > reach[used])
            reach[used] = reach[used - 1];
        for (uint32_t ranks = 1; ranks <= floor->most_ranks && used + ranks <= devices; ranks++) {
            const struct place place = { .first = reach[used], .ranks = ranks, .left = devices - used };
            const uint32_t end = furthest(floor, place, n < ranks ? UINT64_MAX : limit_ns / (n / ranks));
            if (end > reach[used + ranks])
                reach[used + ranks] = end;
        }
    }
}

struct late *late_create(const struct floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const uint32_t devices = bounds->request->ranks, m = bounds->request->micro_batches;
    struct late *late = calloc(1, sizeof *late);
    if (!late)
        return NULL;
    late->devices = devices;
    late->micro_batches = m;
    late->under_ns = floor->limit_ns;
    late->unit_ns = floor->backward[bounds->layers] / devices * 3 / 2 / LIMITS + 1;
    late->forward_permille = 1000000;
    for (uint32_t l = 0; l < bounds->layers; l++) {
        const uint64_t f = floor->forward[l + 1] - floor->forward[l], b = floor->backward[l + 1] - floor->backward[l];
        if (b > 0 && f < late->forward_permille * b / 1000)
            late->forward_permille = f * 1000 / b;
    }
    for (uint32_t ranks = 2; ranks <= floor->most_ranks; ranks++) {
        const uint32_t n = between(m, ranks);
        if (n == 0 || n > MOST_BETWEEN || late->reach[n])
            continue;
        late->reach[n] = calloc((size_t)LIMITS * (devices + 1), sizeof late->reach[n][0]);
        if (!late->reach[n]) {
            late_free(late);
            return NULL;
        }
        for (uint32_t i = 0; i < LIMITS; i++)
            reach_under(floor, n, i * n * late->unit_ns, late->reach[n] + (size_t)i * (devices + 1));
    }
    return late;
}

bool late_begin(const struct late *late, uint32_t used, uint32_t ranks, uint32_t layers, uint32_t at,
                struct late_begin *begin)
{
    const uint32_t n = late ? between(late->micro_batches, ranks) : 0;
    const uint32_t *reach = n > 0 && n <= MOST_BETWEEN ? late->reach[n] : NULL;
    *begin = (struct late_begin){ .layers = layers };
    if (!reach)
        return at == 0;
    if (at > LIMITS || (at > 0 && reach[(size_t)(at - 1) * (late->devices + 1) + used] >= layers))
        return false;
    if (at < LIMITS && reach[(size_t)at * (late->devices + 1) + used] < layers)
        begin->layers = reach[(size_t)at * (late->devices + 1) + used];
    begin->out_ns = at > 0 ? (at - 1) * n * late->unit_ns : 0;
    begin->in_ns = begin->out_ns * late->forward_permille / 1000;
    return true;
}
