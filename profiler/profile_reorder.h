// A profile with its layers in another order.
//
// Take a partition of a DAG into stages whose edges all point forward. It is a chain of downsets (sets of layers that
// contain everything that their layers read). In some order of the layers, its stages are therefore consecutive
// intervals. A planner that knows only intervals can plan for a DAG by planning for its orders:
//
//     0 -> 1 -> 3      {0, 1} {2, 3}    intervals of 0 1 2 3
//      \-> 2 ->/       {0, 2} {1, 3}    intervals of 0 2 1 3, where layer 2 stands at place 1
#ifndef PROFILER_PROFILE_REORDER_H
#define PROFILER_PROFILE_REORDER_H

#include "profiler/profile.h"

// The same profile with its layers permuted, which the caller frees: `order[i]` is the layer at place i. NULL with an
// error, which names the first wrong place, unless each layer comes after all layers that it reads from. Its hash stays
// that of the original, which is the document that a plan names. Edges and tied pairs move with their layers. An entry
// i of no_cut_after says that layers i and i + 1 are on one stage; in the new order there is no cut anywhere between
// the two.
struct profile *profile_reorder(const struct profile *profile, const uint32_t *order, struct error *error);

// Whether the layers have only one order: each reads from the one before.
bool profile_has_one_order(const struct profile *profile);

#endif
