// What a stage must run again at least so that it fits its devices, in whichever order its layers stand: as
// arrangement_memory.h, but from sums alone. Every layer is kept or run again. At a price per byte it then costs what
// it saves, or its F, whichever is less; the sum of that, less the price of what there is to spend, is a bound. It
// knows nothing of what is read when layers are run again, and of workspaces.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_SUMS_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_SUMS_H

#include "partitioner/holding.h"

enum { ARRANGEMENT_PRICES = 8 };

// Of groups of downsets, as struct totals: the least, and the most, up to each.
struct arrangement_sum {
    uint64_t *least, *most;
};

struct arrangement_sums {
    const struct holding *holding;  // without a window, and nothing with the host
    struct arrangement_sum weights, optimizer, saved;  // bytes
    struct arrangement_sum cost[ARRANGEMENT_PRICES];   // ns
    double price[ARRANGEMENT_PRICES];                  // ns per byte
};

// As arrangement_memory_least().
uint64_t arrangement_sums_least(const struct arrangement_sums *sums, uint32_t first, uint32_t end, uint32_t ranks,
                                uint64_t ahead, uint64_t capacity);

#endif
