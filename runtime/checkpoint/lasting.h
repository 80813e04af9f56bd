// A model as checkpoints describe it: the tensors of its layers by name, and the buffers into which a checkpoint's
// layers are read.
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
    void *names;                // memory of the names that tensors are known by; NULL: the model has only its own
    struct run_file files[2];   // for a model that transformers has: the files by which it reads a checkpoint
    size_t file_count;
};

// Frees everything in it, except the names of layers and tensors, which belong to the model.
void lasting_model_free(struct lasting_model *lasting);

// Whether the checkpoint has exactly these layers, in this precision and with this optimizer's state.
bool lasting_model_matches(const struct lasting_model *lasting, const struct manifest *manifest, struct error *error);

// The content of a layer's file, in memory until it has been put in its place. `what` is the memory's name in an error.
struct lasting_state {
    void *parts[LASTING_PARTS];
};
bool lasting_state_create(struct lasting_state *state, const struct lasting_model *lasting, size_t layer,
                          const char *what, struct error *error);
void lasting_state_clear(struct lasting_state *state);

#endif
