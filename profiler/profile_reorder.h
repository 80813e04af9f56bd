// A profile with its layers in another order.
//
// A partition of a DAG into stages whose edges all point forward is a chain of
// downsets (sets of layers that hold all that their layers read), and so a row of
// intervals of some order of the layers. Whoever knows intervals only plans for a DAG
// by planning for its orders:
//
//     0 -> 1 -> 3      {0, 1} {2, 3}    intervals of 0 1 2 3
//      \-> 2 ->/       {0, 2} {1, 3}    intervals of 0 2 1 3, where layer 2 stands at place 1
#ifndef PROFILER_PROFILE_REORDER_H
#define PROFILER_PROFILE_REORDER_H

#include "profiler/profile.h"

// `order`: the layer that stands at each place. Each comes after all it reads from.
// False, with the first place that is wrong, where it is no such order.
bool profile_order_check(const struct profile *profile, const uint32_t *order, struct error *error);

// The same profile with its layers so permuted; its hash stays that of the original,
// which is the document that a plan names. Edges, tied and lent pairs go with their layers.
// no_cut_after i says that layer i and the one behind it, i + 1, are on one stage; in
// the new order no cut may be anywhere between the two.
struct profile *profile_reorder(const struct profile *profile, const uint32_t *order, struct error *error);

// Whether the layers have no other order: each reads from the one before.
bool profile_has_one_order(const struct profile *profile);

#endif
