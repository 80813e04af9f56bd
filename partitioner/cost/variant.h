// Variants: other ways to run the layers of a stage, such as split over several devices.
//
// A stage takes a variant by name. Each of its layers that has a variant of that name
// then has that variant's numbers, the others keep their own:
//
//     layer             attention       norm          mlp
//     its own           F 40            F 2           F 80
//     "split 2"         F 20 + 6        -             F 40 + 6        6: communication_ns, within the group
//     the stage         F 26            F 2           F 46
//
// communication_ns is added to F, to B and to I, and not to W. `output_bytes` stay the
// layer's: what a layer hands on is whole on every device of the group. `devices` of the
// variant says how large the group is.
//
// Of a variant that `shares_output` each device of the group has a share of what layers hand
// on (sequence parallel), and `output_bytes` are the variant's. Nobody gathers or cuts these
// shares: all layers have such a variant, and the stages in front and behind take it, too.
#ifndef PARTITIONER_COST_VARIANT_H
#define PARTITIONER_COST_VARIANT_H

#include "profiler/profile.h"

// The profile as a stage sees it that takes this variant (NULL: none); it borrows all but its layers' numbers from
// `profile`. Fails where no layer has it, where its layers have groups of unlike size, and where times or sizes
// add up to more than a document can hold. Freed by variant_free().
struct profile *variant_of(const struct profile *profile, const char *name, struct error *error);
void variant_free(struct profile *of);

// Whether a stage of the one can stand next to one of the other.
bool variants_meet(const struct profile *profile, const char *one, const char *other);

// Whether the first and the last stage of several can take these: where their layers are tied each member of a group
// keeps its part of both, so that the groups are of the same size.
bool variants_tie(const struct profile *profile, const char *first, const char *last);

// The devices of a group that runs it; 1 for none.
uint32_t variant_devices(const struct profile *profile, const char *name);

// The names of all variants that layers have, in the order in which they are first met; `names` has room for `most`.
// How many there are.
size_t variant_names(const struct profile *profile, const char **names, size_t most);

#endif
