// Running totals of layers, of which the difference of two is what a stage takes.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_TOTALS_H
#define PARTITIONER_LAYOUTS_LAYOUT_TOTALS_H

#include "profiler/profile.h"

// Of a variant's layers.
struct totals {
    uint64_t *forward, *backward, *weights;
    uint64_t *through;  // F and what it must wait for on the way back: I where backwards are in two parts
};

// Of layers; `is_whole`: backwards are whole ones. False without memory.
bool totals_fill(const struct profile *profile, bool has_backward, bool is_whole, struct totals *of);
void totals_clear(struct totals *of);

// Lowers one that is the least of several, layer by layer.
void totals_lower(const uint64_t *own, uint64_t *least, size_t layers, bool is_first);

#endif
