// Which weight version each micro-batch uses on each stage, and how many uses of a version are still to come when it
// is made. This is computed before anything runs, so that a version is kept exactly as long as it is needed.
//
//     2bw, m = 2      F0 F1 B0 B1 STEP0 F2 F3 B2 B3 STEP1 F4 ...
//     version         0  0              0  0              1        4 use version 0, 2 use version 1
//
// Versions count from the beginning of a pass through the schedule.
#ifndef RUNTIME_RANKS_WEIGHT_PLAN_H
#define RUNTIME_RANKS_WEIGHT_PLAN_H

#include "partitioner/plan/collectives.h"
#include "schedules/schedule.h"

struct weight_plan {
    const struct schedule *schedule;
    const struct placement *placement;
    uint32_t samples;   // schedule_samples()
    bool has_backward;  // if not, a micro-batch is done with the weights after its forward
    uint32_t *met;      // the version it uses, by unit_of() (schedules/board.h)
    uint32_t *updates;  // per copy: STEPs in a pass
    size_t *first;      // per copy, where its entries of `users` begin
    uint32_t *users;    // by version from 0 to `updates`
};

// The number of micro-batches over which the loss is averaged. With a flush, this is all micro-batches of an
// iteration, on whatever copy. Otherwise it is those that the first copy of stage 0 adds up before its first STEP.
// (That holds for a full update: at the end of a run there may be fewer.)
uint32_t schedule_samples(const struct schedule *schedule);

// Borrows both. Fails if a micro-batch would need a version that is never made.
bool weight_plan_open(struct weight_plan *plan, const struct schedule *schedule, const struct placement *placement,
                      struct error *error);
void weight_plan_close(struct weight_plan *plan);

// A rank can be absent from a collective in which copies gather their weights (partitioner/plan/collectives.h). It then
// keeps its share of the version used there as if it ran the forward and the backward itself.
void weight_plan_keep_for_absent(struct weight_plan *plan, const struct collectives *collectives);

// The version that an action's micro-batch uses on its stage, after the given number of passes.
uint64_t weight_plan_version(const struct weight_plan *plan, uint64_t passes, struct action action);

// For each version of a copy: how many uses are still to come when it has been made.
const uint32_t *weight_plan_users(const struct weight_plan *plan, uint32_t stage, uint32_t rank);

#endif
