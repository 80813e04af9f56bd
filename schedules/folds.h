// Which micro-batches each update of a stage takes in: those whose backwards come before it. All copies of a stage
// make the same number of updates, and their micro-batches come together in each.
//
//     p = 3, pipedream, rank 0   F0 F1 F2 B0 STEP F3 B1 STEP F4 ...
//     update_of                  0 for micro-batch 0, 1 for micro-batch 1, ...
//
// What forwards leave for such an update (the statistics of layers with state) has a slot from F to the STEP. If the
// stage has copies, REDUCE ends what an update takes in, and each copy has room for the statistics of all copies.
#ifndef SCHEDULES_FOLDS_H
#define SCHEDULES_FOLDS_H

#include "schedules/schedule.h"

#define NO_UPDATE UINT32_MAX

struct folds {
    const struct schedule *schedule;
    uint32_t *update_of;  // [stage * micro-batches + micro-batch]: the update's number in the pass; or NO_UPDATE
};

// Borrows the schedule, lowered or not.
bool folds_open(struct folds *folds, const struct schedule *schedule, struct error *error);
void folds_close(struct folds *folds);

static inline bool folds_takes(const struct folds *folds, uint32_t stage, uint32_t update, uint32_t micro_batch)
{
    return folds->update_of[(size_t)stage * folds->schedule->micro_batches + micro_batch] == update;
}

#endif
