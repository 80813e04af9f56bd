// How other planners cut a chain of layers, reimplemented here from their descriptions, for comparison with our
// plans. Each function gets the time of every layer in ns, and fills in parts + 1 numbers: part i is layers [cuts[i],
// cuts[i + 1]). None of them takes links, memory or a schedule into account.
#ifndef BENCH_BASELINES_H
#define BENCH_BASELINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct baseline {
    const char *name;
    // False if there is no memory. `count` is the number of layers, at least as many as parts.
    bool (*cut)(const uint64_t *times, uint32_t count, uint32_t parts, uint32_t *cuts);
};

// torchgpipe, DeepSpeed, equal numbers of layers, and Megatron's manual layouts; ended by a NULL name.
extern const struct baseline baselines[];

// The time of the largest part, and the smallest possible time of the largest part.
uint64_t baseline_load(const uint64_t *times, uint32_t parts, const uint32_t *cuts);
uint64_t baseline_least_load(const uint64_t *times, uint32_t count, uint32_t parts);

#endif
