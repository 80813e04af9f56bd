// Profiles of one model with different capacities of its experts, from which a plan chooses.
//
// A capacity belongs to a model, since what is dropped changes what is learnt. So each capacity has a profile of its
// own, and a plan is that of one of them. The fewest choices of tokens are dropped by the largest capacity for which a
// plan fits.
#ifndef PARTITIONER_EXPERTS_EXPERT_CAPACITIES_H
#define PARTITIONER_EXPERTS_EXPERT_CAPACITIES_H

#include "common/error.h"
#include "profiler/profile.h"

struct capacity_choice {
    const struct profile *profile;
    const char *file;
    uint64_t dropped_ppm;  // of all choices, by the profile's routing
};

// Fills in what is dropped, and sorts: first those that drop the fewest, of these the largest capacity. False with an
// error if profiles are not of one model and one routing but for the capacity, or if one has no routing.
bool expert_capacities_sort(struct capacity_choice *choices, size_t count, struct error *error);

#endif
