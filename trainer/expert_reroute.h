// A profile by the routing of experts that a run has counted, in place of its own.
#ifndef TRAINER_EXPERT_REROUTE_H
#define TRAINER_EXPERT_REROUTE_H

#include "models/model.h"
#include "profiler/expert_routing.h"
#include "profiler/profile.h"

// The run was by a plan whose stages have the variant `ran` (NULL: none), and what that takes has been measured. Beside
// it the profile's other placements take as much more or less time as their slowest members have more or fewer rows.
// The model is the profile's. False with an error, also for the routing of another model.
bool expert_reroute(struct profile *profile, const struct model *model, const char *ran,
                    const struct profile_routing *routing, struct error *error);

#endif
