// What a schedule computes, whoever runs it: which micro-batches each update of a
// stage adds up, in which order, and which version of the weights they meet.
//
//   flush     all meet the weights that the iteration began with; one update.
//   stash     (PipeDream) the version a stage had when the forward ran there: the
//             updates that come before it in its rank's list.
//   vertical  the same of stage 0, for all stages.
//   2bw       update t is made from gradients at version max(0, t - 1).
//
// Gradients are added in the order of the backwards (B or W) on their rank, copy by
// copy; the copies' sums are added in the order of placement.h. Where copies share gradients (ZeRO 2 and 3) each
// micro-batch is a sum of its own, and they are added meeting by meeting (partitioner/plan/meetings.h), and in each in
// that order. Without a flush the
// update is the mean of what there is: with r replicas, update t takes micro-batches
// tr to tr + r - 1, as far as there are any. Losses are shares of a mean already
// (schedule_samples(), runtime/weight_plan.h); the rest is made good here.
//
// Versions and updates count from the beginning of a pass through the schedule.
#ifndef RUNTIME_TWIN_UPDATES_H
#define RUNTIME_TWIN_UPDATES_H

#include "partitioner/plan/meetings.h"

// The gradients that one copy brings to one update of its stage, added up by themselves.
struct update_part {
    uint32_t *micro_batches;  // in the order in which they are added
    size_t count;
    uint32_t parts_left;      // of the last one
};

struct stage_updates {
    uint32_t count;             // updates in a pass
    bool has_meetings;          // copies share its gradients
    uint32_t sums;              // of an update: one of each copy; or, at most, one of each micro-batch
    struct update_part *parts;  // [update * sums + sum]
    uint32_t versions;          // most versions of the weights that are needed at once
};

// Updates of several stages that add up the same micro-batches in the same order are
// computed at once; such steps follow each other so that every version they need has
// been made.
struct update_step {
    uint32_t first_stage;  // whose update it is; the others are like it
    uint32_t update;       // of the first stage
    bool *stages;          // which ones
};

struct updates {
    const struct schedule *schedule;
    uint32_t *met;  // [stage * micro-batches + micro-batch]
    struct stage_updates *stages;
    struct update_step *steps;
    size_t step_count;
};

// Borrows the schedule, whose replicas share so much. Refuses parts of sequences that do not go back one behind the other, and an order in which an
// update would need what comes later.
bool updates_open(struct updates *updates, const struct schedule *schedule, enum shard shard, struct error *error);
void updates_close(struct updates *updates);

static inline uint32_t updates_met(const struct updates *updates, uint32_t stage, uint32_t micro_batch)
{
    return updates->met[(size_t)stage * updates->schedule->micro_batches + micro_batch];
}

#endif
