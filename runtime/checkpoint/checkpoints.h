// The checkpoints of a training run: where they are stored, when one is due, and from which one a resumed run
// continues.
#ifndef RUNTIME_CHECKPOINT_CHECKPOINTS_H
#define RUNTIME_CHECKPOINT_CHECKPOINTS_H

#include "runtime/checkpoint/resume.h"
#include "runtime/checkpoint/saver.h"

struct checkpoint_settings {
    const char *folder;  // NULL: nothing is saved
    uint32_t every;      // steps between checkpoints, plus one after the last step; 0: only that one
    uint32_t keep;       // the number of newest ones that stay; the best by loss on held-out data, if known, stays too
    bool resume;         // from the newest complete one
};

struct checkpoints;

struct checkpoints_request {
    struct checkpoint_settings settings;
    const struct process_group *group;
    const struct lasting_model *lasting;
    const struct pipeline *pipeline;
    const struct manifest *run;  // describes this run; without step, passes, loss and layers
    const struct resume_rules *rules;
    void (*say)(void *self, const char *sentence);  // called on rank 0, or on a rank that could not write
    void *self;
};

// If asked to, sets the pipeline to where an ended run has stopped: `step` steps and `passes` passes have then been
// made. Fails if ranks do not share the folder, or if it has checkpoints and the run was not asked to continue from
// them.
struct checkpoints *checkpoints_open(const struct checkpoints_request *request, uint64_t *step, uint64_t *passes,
                                     struct error *error);
void checkpoints_close(struct checkpoints *checkpoints);

// The position of a run between two passes.
struct checkpoint_moment {
    uint64_t step, passes;  // made so far
    uint64_t samples;       // consumed so far (manifest.h)
    double loss;            // of the last step
    bool has_held;          // whether the loss on held-out data is known here
    double held_loss;       // that loss
    bool is_wanted;         // a checkpoint of this moment was asked for
    const char *words;      // the author's, or NULL (manifest.h); read during the call only
};

// Call it after each pass. It makes a checkpoint if one is due or wanted, or if the held-out loss is the best so far.
bool checkpoints_pass(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error);
// Call it at the end of the run. It makes a checkpoint of where the run is, unless there is one, and waits until
// everything is written.
bool checkpoints_end(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error);
// Only waits.
bool checkpoints_wait(struct checkpoints *checkpoints, struct error *error);

// The words of the checkpoint from which the run was resumed, or NULL. They are the caller's, to be freed by free(); a
// second call returns NULL.
char *checkpoints_take_words(struct checkpoints *checkpoints);

// The samples that the run had consumed at the checkpoint from which it was resumed; 0: there was none, or it does not
// say.
uint64_t checkpoints_samples(const struct checkpoints *checkpoints);

// The step of the newest checkpoint; the best one; and whether the last could not be written (saver.h).
uint64_t checkpoints_newest(const struct checkpoints *checkpoints);
struct saved_best checkpoints_best(const struct checkpoints *checkpoints);
bool checkpoints_have_failed(const struct checkpoints *checkpoints);

#endif
