// How other planners cut a chain of layers, re-made here from their descriptions, to hold
// our plans against. Each gets the time of every layer and fills in parts + 1 places:
// part i is layers [cuts[i], cuts[i + 1]). None knows links, memory or a schedule.
#ifndef BENCH_BASELINES_H
#define BENCH_BASELINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct baseline {
    const char *name;
    // False without memory. `count` layers, at least as many as parts.
    bool (*cut)(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts);
};

// torchgpipe, DeepSpeed, as many layers for each, and Megatron's hand layouts; ended by a NULL name.
extern const struct baseline baselines[];

// The largest part, and the least that the largest part can be.
uint64_t baseline_load(const uint64_t *times, uint32_t parts, const uint32_t *cuts);
uint64_t baseline_least_load(const uint64_t *times, uint32_t count, uint32_t parts);

#endif
