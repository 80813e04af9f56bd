// Resuming from a checkpoint: the newest complete one of a folder, on all ranks, with the same plan or another plan
// of the same model.
#ifndef RUNTIME_CHECKPOINT_RESUME_H
#define RUNTIME_CHECKPOINT_RESUME_H

#include "runtime/checkpoint/lasting.h"
#include "runtime/pipeline.h"

// What a run may resume from, in the words of the program that asks.
struct resume_rules {
    const char *asked_by;  // the option that asks to resume: "--resume"
    // Whether the checkpoint belongs to this run, beyond what lasting_model_matches() tells. If not, it is refused.
    bool (*belongs)(const struct manifest *was, const struct manifest *now, struct error *error);
    // Reports, in a sentence each, why the continued run is not bitwise equal to the one that was ended.
    void (*say_changes)(const struct manifest *was, const struct manifest *now,
                        void (*say)(void *self, const char *sentence), void *self);
};

struct resume_request {
    const char *folder;
    const struct process_group *group;  // NULL: one process has all ranks
    const struct lasting_model *lasting;
    const struct pipeline *pipeline;  // has made no step yet
    const struct manifest *run;       // describes this run; without step, passes, loss and layers
    const struct resume_rules *rules;
    void (*say)(void *self, const char *sentence);  // called once for all ranks
    void *self;
};

// Loads weights, states and counters. Says from which checkpoint, and what will not be bitwise equal to the ended
// run. `found` is NULL if there is no checkpoint; otherwise free it with manifest_free(). Fails if the rules refuse
// the checkpoint, or if the folder has checkpoints but no complete one.
bool resume_run(const struct resume_request *request, struct manifest **found, struct error *error);

#endif
