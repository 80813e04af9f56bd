// The independent evaluator: holds a plan against the profile it says it was made
// of.
//
// Everything is computed anew from the definitions, by plain loops that share
// nothing with the search: bytes tensor by tensor over all edges, slots by laying
// the lives of all buffers of a lowered schedule beside each other, times by the
// whole simulator. Quadratic, and meant to be obviously right.
#ifndef PARTITIONER_EVALUATE_EVALUATE_H
#define PARTITIONER_EVALUATE_EVALUATE_H

#include "partitioner/plan/plan.h"

// True when every number of the plan is what the profile says it must be, every
// stage fits, and the certificate does not claim more than its own numbers. Else
// the first disagreement, in one sentence with its place:
//
//     stages[1].memory.kept_bytes: the plan says 4096, its profile gives 8192
bool plan_evaluate(const struct plan *plan, const struct profile *profile, struct error *error);

// The part of it that needs no profile: what is predicted is what the simulator makes of the plan's own costs. False with
// ERROR_ANSWER and the first disagreement where it is not.
bool plan_evaluate_prediction(const struct plan *plan, struct error *error);

#endif
