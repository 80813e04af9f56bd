// Running totals over layers. The difference of two is what a stage takes.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_TOTALS_H
#define PARTITIONER_LAYOUTS_LAYOUT_TOTALS_H

#include "common/arrays.h"
#include "partitioner/plan/storage.h"

// The totals of a variant's layers: times, and bytes of weights.
struct totals {
    uint64_t *forward, *backward, *weights;
    uint64_t *through;  // F, and what a micro-batch waits for on the way back: I if backwards are split
};

// Fills the totals of a profile's layers; `is_whole`: backwards are not split. What lists of rows count as depends on
// the copies, and is left out of the weights. False without memory.
bool totals_fill(const struct profile *profile, const struct storage *storage, bool has_backward, bool is_whole,
                 struct totals *totals, struct arrays *arrays);
// Rows of zeros. False without memory.
bool totals_create(struct totals *totals, size_t layers, struct arrays *arrays);

// Lowers totals that are the least of several, layer by layer, to those of one more (`sums`).
void totals_lower(const uint64_t *sums, uint64_t *least, size_t layers, bool is_first);

#endif
