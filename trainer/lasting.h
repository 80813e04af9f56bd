// A model as checkpoints know it: its layers' tensors by name, and where a checkpoint's layers are taken from again.
#ifndef TRAINER_LASTING_H
#define TRAINER_LASTING_H

#include "models/hugging_face.h"
#include "runtime/checkpoint/layer_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/run_folder.h"

struct lasting_model {
    struct lasting_form form;
    struct lasting_layer *layers;  // in the order of the model
    size_t layer_count;
    struct lasting_tensor *tensors;
    char (*names)[HUGGING_FACE_NAME];  // that tensors are known by; of a model that is none of theirs NULL
    struct run_file files[2];          // by which transformers reads a checkpoint of one that is theirs
    size_t file_count;
};

// Layers and their names are borrowed from the model. Freed by lasting_model_free().
struct lasting_model *lasting_model_create(const struct model *model, enum optimizer_kind optimizer,
                                           struct error *error);
void lasting_model_free(struct lasting_model *lasting);

// Whether the checkpoint has these layers and no others, in this precision and with this optimizer's state.
bool lasting_model_matches(const struct lasting_model *lasting, const struct manifest *manifest, struct error *error);

// What a layer's file brings, in memory until it has been put where it belongs.
struct lasting_state {
    void *parts[LASTING_PARTS];
};
bool lasting_state_create(struct lasting_state *state, const struct lasting_model *lasting, size_t layer,
                          struct error *error);
void lasting_state_clear(struct lasting_state *state);

#endif
