#include "bench/baselines.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum(const uint64_t *times, uint32_t first, uint32_t end)
{
    uint64_t all = 0;
    for (uint32_t i = first; i < end; i++)
        all += times[i];
    return all;
}

uint64_t baseline_load(const uint64_t *times, uint32_t parts, const uint32_t *cuts)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const uint64_t load = sum(times, cuts[i], cuts[i + 1]);
        most = load > most ? load : most;
    }
    return most;
}

// Whether parts of at most `load` suffice, if each takes as many layers as it can.
static bool is_enough(const uint64_t *times, uint32_t count, uint32_t parts, uint64_t load)
{
    uint32_t used = 1;
    uint64_t part_load = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (times[i] > load)
            return false;
        if (part_load + times[i] > load) {
            used++;
            part_load = 0;
        }
        part_load += times[i];
    }
    return used <= parts;
}

uint64_t baseline_least_load(const uint64_t *times, uint32_t count, uint32_t parts)
{
    uint64_t low = 0, high = sum(times, 0, count);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (is_enough(times, count, parts, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// --- torchgpipe ---------------------------------------------------------------------------
//
// Block partitions of sequences (Barany and Grinberg), starting from equal counts. The smallest part gets a layer
// from its neighbour on the side of the largest part. This repeats, each time for the part that is then the smallest,
// until the largest part itself has given a layer. All of that repeats until no two parts differ by more than the
// largest layer. The method guarantees nothing about the largest part itself.

// If parts are equal: the last largest and the first smallest one.
static uint32_t largest_part(const uint64_t *times, uint32_t parts, const uint32_t *cuts)
{
    uint32_t largest = 0;
    for (uint32_t i = 1; i < parts; i++)
        if (sum(times, cuts[i], cuts[i + 1]) >= sum(times, cuts[largest], cuts[largest + 1]))
            largest = i;
    return largest;
}

static uint32_t smallest_part(const uint64_t *times, uint32_t parts, const uint32_t *cuts)
{
    uint32_t smallest = 0;
    for (uint32_t i = 1; i < parts; i++)
        if (sum(times, cuts[i], cuts[i + 1]) < sum(times, cuts[smallest], cuts[smallest + 1]))
            smallest = i;
    return smallest;
}

static bool cut_torchgpipe(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts)
{
    uint64_t step = 0;
    for (uint32_t i = 0; i < count; i++)
        step = times[i] > step ? times[i] : step;
    for (uint32_t i = 0; i < parts; i++)
        cuts[i] = count / parts * i;
    cuts[parts] = count;
    for (;;) {
        const uint32_t from = largest_part(times, parts, cuts);
        const uint64_t most = sum(times, cuts[from], cuts[from + 1]);
        for (uint32_t giver = parts; giver != from;) {
            const uint32_t to = smallest_part(times, parts, cuts);
            if (most <= sum(times, cuts[to], cuts[to + 1]) + step)
                return true;
            giver = from < to ? to - 1 : to + 1;
            if (from < to)
                cuts[to]--;
            else
                cuts[to + 1]++;
        }
    }
}

// --- DeepSpeed ----------------------------------------------------------------------------
//
// A dynamic program over places and parts. For the layers up to a place, it keeps the way to cut them whose largest
// and smallest part differ least. If several are equal, it keeps the one whose last cut is furthest towards the end.
// This is not always the way that leads to the best result.

struct span {
    uint64_t least, most;
};

static bool is_closer(struct span a, struct span b)
{
    return a.most - a.least <= b.most - b.least;
}

static void fill_place(const uint64_t *before, uint32_t parts, struct span *best, uint32_t *from, uint32_t place)
{
    const uint32_t row = parts + 1;
    for (uint32_t part = 1; part <= parts && part <= place; part++) {
        for (uint32_t k = part - 1; k < place; k++) {
            if (part == 1 && k > 0)
                break;
            const uint64_t load = before[place] - before[k];
            const struct span so_far = part == 1 ? (struct span){ load, load } : best[(size_t)k * row + part - 1];
            const struct span with = { load < so_far.least ? load : so_far.least,
                                       load > so_far.most ? load : so_far.most };
            struct span *cell = &best[(size_t)place * row + part];
            if (k == part - 1 || is_closer(with, *cell)) {
                *cell = with;
                from[(size_t)place * row + part] = k;
            }
        }
    }
}

static bool cut_deepspeed(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts)
{
    const size_t cells = ((size_t)count + 1) * (parts + 1);
    uint64_t *before = calloc((size_t)count + 1, sizeof before[0]);
    struct span *best = calloc(cells, sizeof best[0]);
    uint32_t *from = calloc(cells, sizeof from[0]);
    const bool good = before && best && from;
    for (uint32_t i = 0; good && i < count; i++)
        before[i + 1] = before[i] + times[i];
    for (uint32_t place = 1; good && place <= count; place++)
        fill_place(before, parts, best, from, place);
    cuts[parts] = count;
    for (uint32_t part = parts; good && part > 0; part--)
        cuts[part - 1] = from[(size_t)cuts[part] * (parts + 1) + part];
    free(before);
    free(best);
    free(from);
    return good;
}

// --- by hand ------------------------------------------------------------------------------

// Equal numbers of layers, with one more for the first few parts.
static bool cut_evenly(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts)
{
    (void)times;
    for (uint32_t i = 0; i <= parts; i++)
        cuts[i] = count / parts * i + (i < count % parts ? i : count % parts);
    return true;
}

// Megatron: the embedding at the start and the loss at the end count as a layer each, so the first and the last part
// have one layer less.
static bool cut_megatron(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts)
{
    cut_evenly(times, count + 2, parts, cuts);
    for (uint32_t i = 1; i < parts; i++)
        cuts[i] -= cuts[i] > i ? 1 : 0;
    cuts[parts] = count;
    for (uint32_t i = parts; i-- > 1;)  // no part without a layer
        cuts[i] = cuts[i] < cuts[i + 1] ? cuts[i] : cuts[i + 1] - 1;
    return true;
}

const struct baseline baselines[] = {
    { "torchgpipe", cut_torchgpipe },
    { "DeepSpeed", cut_deepspeed },
    { "even counts", cut_evenly },
    { "Megatron", cut_megatron },
    { NULL, NULL },
};
