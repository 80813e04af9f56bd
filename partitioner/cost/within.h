// What the devices of a stage's group exchange within its actions.
#ifndef PARTITIONER_COST_WITHIN_H
#define PARTITIONER_COST_WITHIN_H

#include "partitioner/plan/plan.h"

// A time of a stage's devices, on the slowest of them.
uint64_t within_scaled_ns(const struct plan *plan, const struct plan_stage *stage, uint64_t ns);

// Within each F, B, I and R of a stage: the communication of the stage's variant, without messages from the stage in
// front. The profile is the plan's.
uint64_t within_ns(const struct plan *plan, const struct profile *profile, uint32_t stage);

#endif
