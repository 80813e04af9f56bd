// The independent evaluator: compares a plan with the profile that it says it was made from.
//
// Everything is computed anew from the definitions, by plain loops that share nothing with the search. Bytes are
// counted tensor by tensor over all edges. Slots are counted by laying the lives of all buffers of a lowered
// schedule beside each other. Times come from the whole simulator. This is quadratic, and meant to be obviously
// right.
#ifndef PARTITIONER_EVALUATE_EVALUATE_H
#define PARTITIONER_EVALUATE_EVALUATE_H

#include "partitioner/plan/plan.h"

// True if every number of the plan is what the profile says it must be, every stage fits, and the certificate does
// not claim more than its own numbers. Else the error is the first disagreement, in one sentence with its place:
//
//     stages[1].memory.kept_bytes: the plan says 4096, its profile gives 8192
bool plan_evaluate(const struct plan *plan, const struct profile *profile, struct error *error);

// The part of plan_evaluate() that needs no profile: whether the predictions are what the simulator makes of the
// plan's own costs. If they are not, returns false with ERROR_ANSWER and the first disagreement.
bool plan_evaluate_prediction(const struct plan *plan, struct error *error);

#endif
