// How a run used the devices of its experts, beside what its plan expected, layer by layer
// (docs/formats/comparison.md).
#ifndef PARTITIONER_EVALUATE_EXPERT_USAGE_H
#define PARTITIONER_EVALUATE_EXPERT_USAGE_H

#include "partitioner/plan/plan.h"
#include "profiler/expert_routing.h"
#include "profiler/profile.h"
#include "schedules/compare/comparison.h"

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
