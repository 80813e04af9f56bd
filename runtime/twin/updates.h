// What a schedule computes, independently of how it is run: which micro-batches each update of a stage adds up, in
// which order, and which weight version they use.
//
//   flush     all use the weights that the iteration began with; one update.
//   stash     (PipeDream) the version that a stage had when the forward ran there:
//             the updates that come before it in its rank's list.
//   vertical  the version of stage 0, for all stages.
//   2bw       update t is made from gradients at version max(0, t - 1).
//
// Gradients are added in the order of the backwards (B or W) on their rank, copy by copy. The sums of the copies are
// added in the order of placement.h. If copies shard gradients (ZeRO 2 and 3), each micro-batch is a sum of its own.
// These sums are added exchange by exchange (partitioner/plan/collectives.h), and within each in that order.
//
// Without a flush, an update is the mean of the micro-batches there are. With r replicas, update t takes
// micro-batches tr to tr + r - 1, as far as these exist. Losses are already shares of a mean (schedule_samples(),
// runtime/ranks/weight_plan.h); the rest is corrected here.
//
// Versions and updates are counted from the beginning of a pass through the schedule.
#ifndef RUNTIME_TWIN_UPDATES_H
#define RUNTIME_TWIN_UPDATES_H

#include "partitioner/plan/collectives.h"

// The gradients that one copy contributes to one update of its stage, added up separately.
struct update_part {
    uint32_t *micro_batches;  // in the order in which they are added
    size_t count;
    uint32_t parts_left;      // of the last micro-batch: parts of its sequences that are still to come
};

struct stage_updates {
    uint32_t count;             // updates in a pass
    bool has_collectives;       // copies shard its gradients
    uint32_t sums;              // sums per update: one for each copy; or, at most, one for each micro-batch
    struct update_part *parts;  // [update * sums + sum]
    uint32_t versions;          // how many weight versions are needed at once, at most
};

// A step computes at once the updates of several stages that add up the same micro-batches in the same order. Steps
// are ordered so that every version they need has been made.
struct update_step {
    uint32_t first_stage;  // the stage whose update it is; the other stages' updates are like it
    uint32_t update;       // of the first stage
    bool *stages;          // the stages that it updates
};

struct updates {
    const struct schedule *schedule;
    uint32_t *met;  // the version used, [stage * micro-batches + micro-batch]
    struct stage_updates *stages;
    struct update_step *steps;
    size_t step_count;
};

// Reads a schedule, which is borrowed. `shard` is what its replicas shard. Two cases are refused: parts of sequences
// that do not go back one after the other, and an order in which an update would need a later one.
bool updates_open(struct updates *updates, const struct schedule *schedule, enum shard shard, struct error *error);
void updates_close(struct updates *updates);

static inline uint32_t updates_met(const struct updates *updates, uint32_t stage, uint32_t micro_batch)
{
    return updates->met[(size_t)stage * updates->schedule->micro_batches + micro_batch];
}

#endif
