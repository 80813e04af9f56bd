// The weights of a checkpoint or from somewhere else, without a run: to measure them, or to write text with them.
#ifndef TRAINER_KEPT_MODEL_H
#define TRAINER_KEPT_MODEL_H

#include "models/model.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/twin/twin.h"

struct kept_model {
    char *path;  // of the checkpoint
    struct manifest *manifest;  // NULL of weights that are no checkpoint's
    struct model *model;
    void **weights;  // by layer, as the runtime has them
};

// From a folder of checkpoints the newest that is whole, or a checkpoint's own folder; or weights from somewhere else
// (given_weights.h), which are in single precision then. What is wrong with newer ones is said. `spec` is the model's name with its sizes (model_spec.h), of which the micro-batch may be another one.
bool kept_model_load(const char *folder, const char *spec, void (*say)(const char *sentence), struct kept_model *kept,
                     struct error *error);
void kept_model_clear(struct kept_model *kept);

// Into a twin of the model, in the precision of the checkpoint.
void kept_model_put(const struct kept_model *kept, struct twin *twin);

#endif
