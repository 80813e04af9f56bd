// Going on from a checkpoint: the newest of a folder that is whole, on all ranks, by the same plan or another one of
// the same model.
#ifndef TRAINER_RESUME_H
#define TRAINER_RESUME_H

#include "runtime/pipeline.h"
#include "trainer/lasting.h"

struct resume_request {
    const char *folder;
    const struct process_group *group;  // NULL: one process has all ranks
    const struct lasting_model *lasting;
    const struct pipeline *pipeline;  // which has made no step
    const struct manifest *run;       // what this run is; without step, passes, loss and layers
    void (*say)(void *self, const char *sentence);  // once for all ranks
    void *self;
};

// Puts weights, states and counts in place, and says from where, and what will not be to the bit what the run would
// have computed that was ended. `found` is NULL where there is no checkpoint; else freed by manifest_free(). Refuses
// one of another model, seed or text, and a folder in which there are checkpoints but none that is whole.
bool resume_run(const struct resume_request *request, struct manifest **found, struct error *error);


#endif
