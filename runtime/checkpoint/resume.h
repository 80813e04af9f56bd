// Going on from a checkpoint: the newest of a folder that is whole, on all ranks, by the same plan or another one of
// the same model.
#ifndef RUNTIME_CHECKPOINT_RESUME_H
#define RUNTIME_CHECKPOINT_RESUME_H

#include "runtime/checkpoint/lasting.h"
#include "runtime/pipeline.h"

// What a run may go on from, in the words of who asks.
struct resume_rules {
    const char *asked_by;  // what asks to go on: "--resume"
    // Whether the checkpoint is of this run, as far as lasting_model_matches() does not tell: another is refused.
    bool (*belongs)(const struct manifest *was, const struct manifest *now, struct error *error);
    // What follows is not to the bit what the run would have computed that was ended: why, a sentence each.
    void (*say_changes)(const struct manifest *was, const struct manifest *now,
                        void (*say)(void *self, const char *sentence), void *self);
};

struct resume_request {
    const char *folder;
    const struct process_group *group;  // NULL: one process has all ranks
    const struct lasting_model *lasting;
    const struct pipeline *pipeline;  // which has made no step
    const struct manifest *run;       // what this run is; without step, passes, loss and layers
    const struct resume_rules *rules;
    void (*say)(void *self, const char *sentence);  // once for all ranks
    void *self;
};

// Puts weights, states and counts in place, and says from where, and what will not be to the bit what the run would
// have computed that was ended. `found` is NULL where there is no checkpoint; else freed by manifest_free(). Refuses
// one that the rules refuse, and a folder in which there are checkpoints but none that is whole.
bool resume_run(const struct resume_request *request, struct manifest **found, struct error *error);

#endif
