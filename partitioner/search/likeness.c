#include "partitioner/search/likeness.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 24, LONGEST_PERIOD = 64 };

// --- two layers -------------------------------------------------------------------------------

static bool has_same_shapes(const struct profile_layer *a, const struct profile_layer *b)
{
    return a->shape_count == b->shape_count
        && (a->shape_count == 0 || memcmp(a->shapes, b->shapes, a->shape_count * sizeof a->shapes[0]) == 0);
}

// Messages of their own and variants are rare, and not looked at.
static bool has_same_numbers(const struct profile_layer *a, const struct profile_layer *b)
{
    struct profile_layer x = *a, y = *b;
    x.name = x.kind = y.name = y.kind = NULL;
    x.shapes = y.shapes = NULL;
    memset(x.spread, 0, sizeof x.spread);
    memset(y.spread, 0, sizeof y.spread);
    return memcmp(&x, &y, sizeof x) == 0 && strcmp(a->kind, b->kind) == 0 && has_same_shapes(a, b)
        && a->receive_count == 0 && a->send_count == 0 && a->variant_count == 0;
}

// What the storage adds to a layer's own numbers.
static bool has_same_sums(const struct intervals *intervals, uint32_t a, uint32_t b)
{
    enum { NUMBERS = sizeof(struct interval_sums) / sizeof(uint64_t) };
    const uint64_t *x = (const uint64_t *)&intervals->before[a], *y = (const uint64_t *)&intervals->before[b];
    bool same = true;
    for (size_t i = 0; i < NUMBERS; i++)
        same &= x[NUMBERS + i] - x[i] == y[NUMBERS + i] - y[i];
    return same;
}

// Whether two lists of layers are the same as seen from `a` and from `b`.
static bool has_same_distances(const uint32_t *at, const uint32_t *layers, uint32_t a, uint32_t b)
{
    bool same = at[a + 1] - at[a] == at[b + 1] - at[b];
    for (uint32_t i = 0; same && i < at[a + 1] - at[a]; i++)
        same = layers[at[a] + i] - a == layers[at[b] + i] - b;
    return same;
}

static bool are_alike(const struct intervals *intervals, uint32_t a, uint32_t b)
{
    const struct profile_layer *layers = intervals->profile->layers;
    return intervals->cut[a] == intervals->cut[b] && intervals->cut[a + 1] == intervals->cut[b + 1]
        && has_same_numbers(&layers[a], &layers[b]) && has_same_sums(intervals, a, b)
        && has_same_distances(intervals->source_at, intervals->sources, a, b)
        && has_same_distances(intervals->reader_at, intervals->readers, a, b);
}

// --- all layers -------------------------------------------------------------------------------

static bool is_tied(const struct profile *profile, uint32_t layer)
{
    bool is = false;
    for (size_t i = 0; i < profile->tied_count; i++)
        is |= profile->tied[i].from == layer || profile->tied[i].to == layer;
    for (size_t i = 0; i < profile->one_owner_count; i++)
        is |= profile->one_owner[i].from == layer || profile->one_owner[i].to == layer;
    return is;
}

// Numbers the kinds of layers. Returns whether they are few.
static bool sort_out(const struct intervals *intervals, uint32_t *kind)
{
    uint32_t like[MOST_KINDS], kinds = 0;  // the first layer of each kind
    for (uint32_t l = 0; l < intervals->layers; l++) {
        kind[l] = is_tied(intervals->profile, l) ? kinds : 0;
        while (kind[l] < kinds && !are_alike(intervals, like[kind[l]], l))
            kind[l]++;
        if (kind[l] < kinds)
            continue;
        if (kinds == MOST_KINDS)
            return false;
        like[kinds++] = l;
    }
    return true;
}

// The layers that are like the one `period` in front of them.
static uint32_t count_alike(const uint32_t *kind, uint32_t layers, uint32_t period)
{
    uint32_t count = 0;
    for (uint32_t l = period; l < layers; l++)
        count += kind[l] == kind[l - period];
    return count;
}

static uint32_t find_period(const uint32_t *kind, uint32_t layers)
{
    uint32_t best = 0, most = 0;
    for (uint32_t period = 1; period <= LONGEST_PERIOD && period < layers; period++) {
        const uint32_t count = count_alike(kind, layers, period);
        best = count > most ? period : best;
        most = count > most ? count : most;
    }
    return best;
}

// Without memory, nothing is alike.
static void see(struct intervals *intervals)
{
    const uint32_t layers = intervals->layers;
    uint32_t *kind = malloc((layers + (size_t)1) * sizeof kind[0]);
    intervals->unlike = arrays_add(&intervals->arrays, layers + (size_t)1, sizeof intervals->unlike[0]);
    if (kind && intervals->unlike && !intervals->has_lists && sort_out(intervals, kind))
        intervals->period = find_period(kind, layers);
    const uint32_t period = intervals->period;
    for (uint32_t l = 0; period > 0 && l < layers; l++)
        intervals->unlike[l + 1] = intervals->unlike[l] + (l < period || kind[l] != kind[l - period]);
    free(kind);
}

uint32_t likeness_first(struct intervals *intervals, uint32_t first, uint32_t end)
{
    if (!intervals->unlike)
        see(intervals);
    const uint32_t period = intervals->period, *unlike = intervals->unlike;
    while (period > 0 && first >= period && unlike[end] == unlike[first]) {
        first -= period;
        end -= period;
    }
    return first;
}
