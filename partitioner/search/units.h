// Units of another framework, which a plan cuts between and runs again as a whole: blocks, and what stands before and
// behind them. Where a request has them, of every stage the first `again` blocks run again, each by itself, and nothing
// else does; what the search chooses is cuts.
//
//     layers     embedding  block0.attention  block0.mlp  block1.attention  block1.mlp  head
//     units      0          1                             2                             3
//     again 1    | embedding  [block 0]  block 1 | [block 2]  block 3  head |
#ifndef PARTITIONER_SEARCH_UNITS_H
#define PARTITIONER_SEARCH_UNITS_H

#include "partitioner/search/recompute.h"

struct search_units {
    const uint32_t *of;    // of each layer
    const bool *is_block;  // of each layer
    uint32_t again;
};

// What of layers [first, end) runs again, a segment for each block; at most end - first of them. Returns how many.
size_t units_again(const struct search_units *units, uint32_t first, uint32_t end, struct segment *segments);

// What that takes, on a device as fast as the profile's.
uint64_t units_again_ns(const struct search_units *units, const struct intervals *intervals, uint32_t first, uint32_t end);

// That way to recompute, with the bytes that it takes; its segments are the caller's to free. False without memory.
bool units_choice(const struct search_units *units, struct intervals *intervals, uint32_t first, uint32_t end,
                  const struct slots *slots, struct recompute_choice *choice, struct error *error);

#endif
