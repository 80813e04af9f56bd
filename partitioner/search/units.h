// Units of another framework: blocks, and what is before and behind them. A plan is cut only between units, and
// recomputes them as a whole. If a request has units, the first blocks of every stage are recomputed, each by
// itself, and nothing else is. The search then chooses only cuts.
//
//     layers     embedding  block0.attention  block0.mlp  block1.attention  block1.mlp  head
//     units      0          1                             2                             3
//     1 of each  | embedding  [block 0]  block 1 | [block 2]  block 3  head |
#ifndef PARTITIONER_SEARCH_UNITS_H
#define PARTITIONER_SEARCH_UNITS_H

#include "partitioner/search/recompute.h"

struct search_units {
    const uint32_t *of;    // of each layer: its unit
    const bool *is_block;  // of each layer
    uint32_t recomputed;
};

// Writes which of layers [first, end) are recomputed, a segment for each block, at most end - first of them. Returns
// how many.
size_t units_recomputed(const struct search_units *units, uint32_t first, uint32_t end, struct segment *segments);

// The time that this takes, ns on a device as fast as the profile's.
uint64_t units_recompute_ns(const struct search_units *units, const struct intervals *intervals, uint32_t first,
                            uint32_t end);

// The same as a way to recompute, with the bytes that it takes. The caller frees its segments. False without memory.
bool units_choice(const struct search_units *units, struct intervals *intervals, uint32_t first, uint32_t end,
                  const struct slots *slots, struct recompute_choice *choice, struct error *error);

#endif
