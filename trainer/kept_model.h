// Weights of a checkpoint or from elsewhere, loaded without a run: to measure them, or to write text with them.
#ifndef TRAINER_KEPT_MODEL_H
#define TRAINER_KEPT_MODEL_H

#include "models/model.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/pipeline.h"
#include "runtime/twin/twin.h"

struct kept_model {
    char *path;  // the checkpoint's folder
    struct manifest *manifest;  // NULL if the weights are not from a checkpoint
    struct model *model;
    void **weights;  // by layer, in the runtime's layout
    float **states;  // likewise, the state without a gradient; NULL for layers that have none
};

// Loads the newest intact checkpoint of a folder of checkpoints, or the checkpoint in `folder` itself. If there are
// weights from elsewhere instead (given_weights.h), they are loaded in single precision. For each newer checkpoint
// that is damaged and therefore skipped, `say` gets a sentence.
// The model's name and sizes are given by `spec` (model_spec.h); its micro-batch may differ from the checkpoint's.
// False with `error` on failure. Cleared by kept_model_clear().
bool kept_model_load(const char *folder, const char *spec, void (*say)(const char *sentence), struct kept_model *kept,
                     struct error *error);
void kept_model_clear(struct kept_model *kept);

// Copies weights and states into a twin of the model that has the checkpoint's precision.
void kept_model_put(const struct kept_model *kept, struct twin *twin);
// The same for the layers that this process has of a pipeline, for forwards alone: an optimizer's own copy of the
// weights stays as it was.
bool kept_model_put_into(const struct kept_model *kept, const struct pipeline *pipeline, struct error *error);

// A hash of the weights and states, by which processes find out whether they have the same.
bool kept_model_hash(const struct kept_model *kept, char digits[HASH_SIZE], struct error *error);

#endif
