// Which version of its weights each micro-batch meets on each stage, and how many
// are still to use a version when it is made: worked out before anything runs, so
// that a version is kept for exactly as long as someone will ask for it.
//
//     2bw, m = 2      F0 F1 B0 B1 STEP0 F2 F3 B2 B3 STEP1 F4 ...
//     version         0  0              0  0              1        4 use version 0, 2 use version 1
//
// Versions count from the beginning of a pass through the schedule.
#ifndef RUNTIME_WEIGHT_PLAN_H
#define RUNTIME_WEIGHT_PLAN_H

#include "partitioner/plan/meetings.h"
#include "schedules/schedule.h"

struct weight_plan {
    const struct schedule *schedule;
    const struct placement *placement;
    uint32_t samples;   // schedule_samples()
    bool has_backward;  // if not, a micro-batch is done with the weights after its forward
    uint32_t *met;      // by unit_of() (schedules/board.h)
    uint32_t *updates;  // per copy: STEPs in a pass
    size_t *first;      // per copy, where its users begin
    uint32_t *users;    // by version from 0 to `updates`
};

// Of how many micro-batches a loss is a share: with a flush all of an iteration, on
// whatever copy; otherwise those that the first copy of stage 0 adds up before its
// first STEP (of a whole update: at the end of a run there may be fewer).
uint32_t schedule_samples(const struct schedule *schedule);

// Borrows both. Refuses a micro-batch that would meet a version nobody makes.
bool weight_plan_open(struct weight_plan *plan, const struct schedule *schedule, const struct placement *placement,
                      struct error *error);
void weight_plan_close(struct weight_plan *plan);

// Who is absent from a meeting for which copies bring their weights together (partitioner/plan/meetings.h) keeps its
// share of the version met there as if it did the forward and the backward itself.
void weight_plan_keep_for_absent(struct weight_plan *plan, const struct meetings *meetings);

// The version an action's micro-batch meets on its stage after so many passes.
uint64_t weight_plan_version(const struct weight_plan *plan, uint64_t passes, struct action action);

// How many are still to use each version of a copy when it has been made.
const uint32_t *weight_plan_users(const struct weight_plan *plan, uint32_t stage, uint32_t rank);

#endif
