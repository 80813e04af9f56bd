// Weights from elsewhere, that a run begins with or that are measured: those of a checkpoint, or of a model that
// transformers has written. Tensors are found by their names in one of
//
//     FOLDER/model.safetensors                     one file
//     FOLDER/model.safetensors.index.json          which names the files of several
//     FOLDER/manifest.json                         a checkpoint's: a file for each layer
//     FILE.safetensors
//
// Any of the precisions F32, BF16 and F16 is accepted. Names of the transformers library are also accepted without
// the leading "transformer.", as GPT-2 was published.
//
// All of the model's tensors must be there, with the running statistics of its norms, and no others. Two exceptions
// are tensors that are not trained: the masks that older files of GPT-2 have, and the head's words (lm_head) if they
// equal the embedding's. If there are more positions than the model has, the first ones are used.
//
// If a config.json is in the same folder, it must describe what the model computes. Shapes alone do not tell the
// number of heads, for example. The same holds for the model that a checkpoint's manifest names.
#ifndef TRAINER_GIVEN_WEIGHTS_H
#define TRAINER_GIVEN_WEIGHTS_H

#include "runtime/pipeline.h"
#include "trainer/model_lasting.h"

// Whether `path` is a folder with such files, or is itself such a file.
bool given_weights_are_there(const char *path);

// By layer, laid out as in the model, with zeros in the gaps between tensors.
struct given_weights {
    float **numbers;  // its parameters
    float **states;   // its state without a gradient; NULL: it has none
    size_t layer_count;
};

// Loads the layers in `wanted` (NULL: all); the others have NULL. `lasting` is of the model. False with `error` on
// failure, and `given` is then empty. Else cleared by given_weights_clear().
bool given_weights_load(const char *path, const struct model *model, const struct lasting_model *lasting,
                        const bool *wanted, struct given_weights *given, struct error *error);
void given_weights_clear(struct given_weights *given);

// Loads weights into a pipeline that has not made a step yet. Each rank calls it, and loads the layers that it has.
bool given_weights_put(const char *path, const struct model *model, const struct lasting_model *lasting,
                       const struct pipeline *pipeline, struct error *error);

#endif
