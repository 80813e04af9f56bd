// A built-in model as checkpoints know it; one that transformers has, by its names there.
#ifndef TRAINER_MODEL_LASTING_H
#define TRAINER_MODEL_LASTING_H

#include "models/hugging_face.h"
#include "runtime/checkpoint/lasting.h"

// Layers and their names are borrowed from the model. Freed by lasting_model_free().
struct lasting_model *lasting_model_create(const struct model *model, enum optimizer_kind optimizer,
                                           struct error *error);

#endif
