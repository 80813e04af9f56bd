// Which layers of a graph are cut as one. Layers that belong together (tied ones, and what no_cut_after joins) are a
// group; that may close cycles, whose layers then belong together, too:
//
//     a -> b -> c      a and c are tied: {a c} reads b, which reads {a c}: all three are one
#ifndef PARTITIONER_LAYER_GROUPS_H
#define PARTITIONER_LAYER_GROUPS_H

#include "profiler/profile.h"

// The group of each layer, numbered in an order in which they can run. `tied`: tied layers belong together. A layer
// that is free (NULL: none), in that it costs nothing wherever it stands, and that has one neighbour loses nothing by
// standing with it. That takes inputs and unread outputs out of the ways to cut a graph, of which they make too many.
// Freed by free().
uint32_t *layer_groups(const struct profile *profile, bool tied, const bool *is_free, struct error *error);

#endif
