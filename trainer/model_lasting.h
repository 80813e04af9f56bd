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

#endif
