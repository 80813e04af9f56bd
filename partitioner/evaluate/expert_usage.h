// How a run used the devices of its experts, beside what its plan expected, layer by layer
// (docs/formats/comparison.md).
#ifndef PARTITIONER_EVALUATE_EXPERT_USAGE_H
#define PARTITIONER_EVALUATE_EXPERT_USAGE_H

#include "partitioner/plan/plan.h"
#include "profiler/expert_routing.h"
#include "profiler/profile.h"
#include "schedules/compare/comparison.h"
#include "schedules/pictures/measured_run.h"

// What routers chose in a run, which came from `file`; NULL if it has counted nothing. Freed by routing_free().
bool expert_routing_of(const struct measured_run *run, const char *file, struct profile_routing **routing,
                       struct error *error);

// Whether a profile, which may be NULL, has experts whose routing can be compared.
bool expert_layers_are_in(const struct profile *profile);

// Rows for a comparison, one for each layer that the run has counted; freed by the caller. What was planned is that of
// the plan's variants in its profile, and unknown without one (NULL). False with an error if the run counted other
// layers than the plan has, or if memory runs out.
bool expert_usage_find(const struct plan *plan, const struct profile *profile, const struct profile_routing *routing,
                       struct expert_usage **rows, size_t *count, struct error *error);

// What the devices of experts exchange within an action of each stage of the plan: as its profile says, and as the run
// has timed it. Stages without such times have zeros. Freed by the caller; NULL with an error if memory runs out.
struct stage_exchange *expert_exchanges_find(const struct plan *plan, const struct profile *profile,
                                             const struct profile_routing *routing, struct error *error);

#endif
