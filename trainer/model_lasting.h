// A built-in model as checkpoints describe it. A model that transformers also has is described with the tensor names
// used there.
#ifndef TRAINER_MODEL_LASTING_H
#define TRAINER_MODEL_LASTING_H

#include "models/hugging_face.h"
#include "runtime/checkpoint/lasting.h"

// Borrows layers and their names from the model. Returns NULL with `error` if there is no memory. Freed by
// lasting_model_free().
struct lasting_model *lasting_model_create(const struct model *model, enum optimizer_kind optimizer,
                                           struct error *error);

// Whether the model computes with a checkpoint's weights what the checkpoint's model does. Shapes do not tell: those
// of a ResNet are the same with other strides, and those of a GPT with other heads. A checkpoint of another trainer's
// model, whose name says nothing here, is taken as it is.
bool lasting_is_computed_alike(const struct manifest *manifest, const struct model *model, struct error *error);

#endif
