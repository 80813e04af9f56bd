// A layer in a checkpoint: LAYER.safetensors, with each of its tensors as it was in the newest weights, and
// LAYER.optimizer.safetensors with what the optimizer keeps of them, where it keeps anything.
//
//     block0.mlp.up.bias                   F32 or BF16
//     block0.mlp.up.bias.first_moment      F32, and so on (optimizer_copy_name())
//
// Or by another name that a tensor is known by. Two files, so that who wants the weights need not read the rest.
//
// In memory a part is a layer's numbers as the runtime has them, tensor behind tensor with gaps, which are zeros and
// are not kept. A part 0 of weights; the others of floats.
#ifndef RUNTIME_CHECKPOINT_LAYER_FILE_H
#define RUNTIME_CHECKPOINT_LAYER_FILE_H

#include "common/safetensors.h"
#include "runtime/optimizer.h"

enum { LASTING_PARTS = 4 };

struct lasting_tensor {
    const char *name;        // "up.bias"
    const char *known_as;    // "transformer.h.0.mlp.c_fc.bias"; NULL: by its layer's name and its own
    uint64_t rows, columns;  // of one row: a vector
    uint64_t first;          // of the layer's numbers
};

struct lasting_layer {
    const char *name;  // "block0.mlp"
    const struct lasting_tensor *tensors;
    size_t tensor_count;
    uint64_t numbers;  // with gaps
};

// What all layers of a run have in common.
struct lasting_form {
    enum precision precision;  // of weights
    enum optimizer_kind optimizer;
};

uint32_t lasting_parts(const struct lasting_form *form);
uint64_t lasting_part_bytes(const struct lasting_form *form, const struct lasting_layer *layer, uint32_t part);

struct layer_written {
    struct safe_written weights;
    struct safe_written optimizer;  // of 0 bytes: there is nothing
};

// Refuses names that no file can have.
bool layer_file_has_name(const struct lasting_layer *layer, struct error *error);

bool layer_file_save(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     uint64_t step, void *const parts[LASTING_PARTS], struct layer_written *written,
                     struct error *error);

// What is damaged or is of another layer is refused with file, place, and checksums. Of parts, also the gaps are
// written; without any but the weights (NULL) the optimizer's file is not read.
bool layer_file_load(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     const struct layer_written *written, void *const parts[LASTING_PARTS], struct error *error);

#endif
