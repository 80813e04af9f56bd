// The checkpoints of a training run: where they go, when one is due, and what a run that goes on begins with.
#ifndef RUNTIME_CHECKPOINT_CHECKPOINTS_H
#define RUNTIME_CHECKPOINT_CHECKPOINTS_H

#include "runtime/checkpoint/resume.h"
#include "runtime/checkpoint/saver.h"

struct checkpoint_settings {
    const char *folder;  // NULL: nothing is kept
    uint32_t every;      // steps, and after the last one; 0: only then
    uint32_t keep;       // the newest ones; of those whose loss on held-out data is known the best stays, too
    bool resume;         // from the newest whole one
};

struct checkpoints;

struct checkpoints_request {
    struct checkpoint_settings settings;
    const struct process_group *group;
    const struct lasting_model *lasting;
    const struct pipeline *pipeline;
    const struct manifest *run;  // what this run is; without step, passes, loss and layers
    const struct resume_rules *rules;
    void (*say)(void *self, const char *sentence);  // by rank 0, or by who has failed to write
    void *self;
};

// Begins the pipeline where an ended run has stopped, if that is asked for: `step` steps and `passes` have been made
// then. Refuses a folder that ranks do not share, and one with checkpoints if no one has asked to go on from them.
struct checkpoints *checkpoints_open(const struct checkpoints_request *request, uint64_t *step, uint64_t *passes,
                                     struct error *error);
void checkpoints_close(struct checkpoints *checkpoints);

// Where a run is, between two passes.
struct checkpoint_moment {
    uint64_t step, passes;  // made
    double loss;            // of the last step
    bool has_held;          // whether that on held-out data is known here
    double held_loss;       // which is it
    bool is_wanted;         // somebody has asked for a checkpoint of this moment
};

// After a pass. A checkpoint is made where one is due or wanted, and where the held-out loss is the best so far.
bool checkpoints_pass(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error);
// The run ends: a checkpoint of where it is, unless there is one; and all that is being written is waited for.
bool checkpoints_end(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error);
// Only the latter.
bool checkpoints_wait(struct checkpoints *checkpoints, struct error *error);

// The newest one, and whether the last could not be written (saver.h).
uint64_t checkpoints_newest(const struct checkpoints *checkpoints);
struct saved_best checkpoints_best(const struct checkpoints *checkpoints);
bool checkpoints_have_failed(const struct checkpoints *checkpoints);

#endif
