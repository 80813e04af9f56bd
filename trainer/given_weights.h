// Weights that a run begins with, or that are measured, from somewhere else: those of a checkpoint, or of a model that
// transformers has written. Tensors are found by their names, in
//
//     FOLDER/model.safetensors                     one file
//     FOLDER/model.safetensors.index.json          which names the files of several
//     FOLDER/manifest.json                         a checkpoint's: a file for each layer
//     FILE.safetensors
//
// whatever precision they are in; of the library's names also without the "transformer." in front, as GPT-2 was
// published. All of the model's tensors must be there and no others, but for what nothing trains: the masks that GPT-2's
// older files have, and a head's words where they are the embedding's once more. Of more positions than the model has
// the first are taken. Where a config.json stands beside them it must be of what the model computes, since no shape tells
// how many heads there are.
#ifndef TRAINER_GIVEN_WEIGHTS_H
#define TRAINER_GIVEN_WEIGHTS_H

#include "runtime/pipeline.h"
#include "trainer/model_lasting.h"

// Whether a folder has such files, or this is one.
bool given_weights_are_there(const char *path);

// Of each layer that is wanted (NULL: of all) its numbers, with gaps, which are zeros; freed by given_weights_free().
float **given_weights_load(const char *path, const struct lasting_model *lasting, const bool *wanted,
                           struct error *error);
void given_weights_free(float **numbers, size_t layer_count);

// Into a pipeline that has not made a step yet; by every rank what it has.
bool given_weights_put(const char *path, const struct lasting_model *lasting, const struct pipeline *pipeline,
                       struct error *error);

#endif
