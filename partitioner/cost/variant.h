// Variants: other ways to run the layers of a stage, such as split over several devices (tensor parallel).
//
// A stage takes a variant by name. Each of its layers that has a variant of that name then has that variant's
// numbers; the others keep their own:
//
//     layer             attention       norm          mlp
//     its own           F 40            F 2           F 80
//     "split 2"         F 20 + 6        -             F 40 + 6        6: communication_ns, within the group
//     the stage         F 26            F 2           F 46
//
// The variant's communication_ns is added to F, R, B and I, and not to W. The layer's own `output_bytes` stay, since
// what a layer hands on is whole on every device of the group. The variant's `devices` says how large the group is.
//
// The variant's update_ns is added to the STEP of the stage: its devices have whole weights there, for rows of their
// own, and add up their gradients at each update. Or rows of tables come from the host, and go back.
//
// With a variant that `shares_output`, each device of the group has a share of what layers hand on (sequence
// parallel), and `output_bytes` are the variant's. These shares are never gathered or cut. So all layers have such a
// variant, and the stages before and after take it, too.
#ifndef PARTITIONER_COST_VARIANT_H
#define PARTITIONER_COST_VARIANT_H

#include "profiler/profile.h"

// The profile as a stage with this variant sees it (NULL: none). It borrows all but its layers' numbers from
// `profile`. Fails if no layer has the variant, if its layers have groups of different sizes, or if times or sizes
// add up to more than a document can hold. Freed by variant_free().
struct profile *variant_of(const struct profile *profile, const char *name, struct error *error);
void variant_free(struct profile *variant);

// Whether a layer reads what devices exchange in front of it: vectors of tables (`exchange`), or rows of experts, in
// models whose layers of experts are cut (`products` and `combine`).
bool profile_layer_reads_rows(const struct profile_layer *layer);
bool profile_layer_reads_exchanged(const struct profile_layer *layer);
// Whether the layer has experts, whose rows a routing tells of.
bool profile_layer_has_experts(const struct profile_layer *layer);

// In an order that exchanges (schedules/schedule.h): such layers [first, end) whose producers are all in front of
// `first` find what they read exchanged by a message. Takes the communication of the stage's variant out of
// the times of these layers of a view, and returns its sum in ns, which the message takes.
uint64_t variant_exchange(struct profile *view, const char *name, uint32_t first, uint32_t end);

// Whether a stage with one of these variants can stand next to a stage with the other.
bool variants_meet(const struct profile *profile, const char *one, const char *other);

// Whether the first and the last of several stages can take these variants. If their layers are tied, each member of
// a group keeps its part of both layers, so the groups must have the same size.
bool variants_tie(const struct profile *profile, const char *first, const char *last);

// The number of devices of a group that runs it; 1 for none.
uint32_t variant_devices(const struct profile *profile, const char *name);

// The names of all variants that layers have, in the order of their first layer; `names` has room for `most`.
// Returns their number.
size_t variant_names(const struct profile *profile, const char **names, size_t most);

#endif
