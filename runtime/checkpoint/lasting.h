// A model as checkpoints know it: its layers' tensors by name, and where a checkpoint's layers are taken from again.
#ifndef RUNTIME_CHECKPOINT_LASTING_H
#define RUNTIME_CHECKPOINT_LASTING_H

#include "runtime/checkpoint/layer_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/run_folder.h"

struct lasting_model {
    struct lasting_form form;
    struct lasting_layer *layers;  // in the order of the model
    size_t layer_count;
    struct lasting_tensor *tensors;
    void *names;                // where what tensors are known by stands; of a model that has only its own NULL
    struct run_file files[2];   // by which transformers reads a checkpoint of one that is theirs
    size_t file_count;
};

// What stands in it is its own, but for layers' and tensors' names, which are the model's.
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
