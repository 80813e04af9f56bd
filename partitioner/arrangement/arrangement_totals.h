// Running totals of layers, of which the difference of two is what a stage takes.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_TOTALS_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_TOTALS_H

#include "profiler/profile.h"

// Of a variant's layers. Of groups of downsets instead of layers (orders/order_arranged.c) the least of each group;
// most_* are the most. Of layers both are one.
struct totals {
    uint64_t *forward, *backward, *weights;
    uint64_t *through;  // F and what it must wait for on the way back: I where backwards are in two parts
    uint64_t *most_forward, *most_backward, *most_weights;
};

// Of layers; `is_whole`: backwards are whole ones. False without memory.
bool totals_fill(const struct profile *profile, bool has_backward, bool is_whole, struct totals *of);
void totals_are_exact(struct totals *of);  // the least is the most
void totals_clear(struct totals *of);

// Lowers one that is the least of several, layer by layer.
void totals_lower(const uint64_t *own, uint64_t *least, size_t layers, bool is_first);

// What [first, end) has at least.
static inline uint64_t totals_between(const uint64_t *least, const uint64_t *most, uint32_t first, uint32_t end)
{
    return least[end] > most[first] ? least[end] - most[first] : 0;
}

// What F of any layer is at least, of a thousand of B and of both.
struct shares {
    uint64_t of_backward, of_both;
};
struct shares shares_of(const struct totals *of, uint32_t layers);

#endif
