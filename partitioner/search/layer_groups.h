// Which layers of a graph are cut as one. Layers that belong together (tied ones, and those that no_cut_after joins)
// form a group. That may close cycles, and the layers of a cycle then belong together, too:
//
//     a -> b -> c      a and c are tied: {a c} reads b, which reads {a c}: all three are one
#ifndef PARTITIONER_SEARCH_LAYER_GROUPS_H
#define PARTITIONER_SEARCH_LAYER_GROUPS_H

#include "profiler/profile.h"

// The group of each layer. Groups are numbered in an order in which they can run. `tied`: tied layers belong
// together. `is_free` marks layers that cost nothing wherever they are (NULL: none). A free layer that has one
// neighbour loses nothing by joining its group. That takes inputs and unread outputs out of the ways to cut a graph,
// of which they make too many. The caller frees the result by free(). NULL with an error.
uint32_t *layer_groups(const struct profile *profile, bool tied, const bool *is_free, struct error *error);

#endif
