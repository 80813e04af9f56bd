// A layer in a checkpoint, in two files. LAYER.safetensors has each of its tensors from the newest weights.
// LAYER.optimizer.safetensors has the optimizer state of these tensors, if there is any.
//
//     block0.mlp.up.bias                   F32 or BF16
//     block0.mlp.up.bias.first_moment      F32, and so on (optimizer_copy_name())
//
// A tensor may have another name that it is known by. There are two files so that a reader of the weights need not
// read the rest.
//
// In memory, a part is a layer's numbers as the runtime has them: one tensor after the other, with gaps that are
// zeros and are not saved. Part 0 is the weights. The other parts are floats, or a single block
// (optimizer_keeps_blocks()). Part LASTING_STATE is the state without a gradient, which lasting_parts() does not count;
// its tensors are in the file of the weights, as F32.
#ifndef RUNTIME_CHECKPOINT_LAYER_FILE_H
#define RUNTIME_CHECKPOINT_LAYER_FILE_H

#include "common/safetensors.h"
#include "runtime/updates/optimizer.h"

enum { LASTING_PARTS = 5, LASTING_STATE = LASTING_PARTS - 1 };

struct lasting_tensor {
    const char *name;        // "up.bias"
    const char *known_as;    // "transformer.h.0.mlp.c_fc.bias"; NULL: its layer's name and its own
    uint64_t rows, columns;  // one row: a vector
    uint64_t first;          // index among the layer's numbers
};

struct lasting_layer {
    const char *name;  // "block0.mlp"
    const struct lasting_tensor *tensors;
    size_t tensor_count;
    uint64_t numbers;  // including gaps
    bool is_table;     // some optimizers keep a number of each row of its tensors
    const struct lasting_tensor *states;  // state without a gradient, floats
    size_t state_count;
    uint64_t state_numbers;  // including gaps
};

// What all layers of a run have in common.
struct lasting_form {
    enum precision precision;  // of the weights
    enum optimizer_kind optimizer;
};

uint32_t lasting_parts(const struct lasting_form *form);
uint64_t lasting_part_bytes(const struct lasting_form *form, const struct lasting_layer *layer, uint32_t part);

struct layer_written {
    struct safe_written weights, optimizer;  // 0 bytes: there is no such file
};

// False with an error if no file can have the layer's name.
bool layer_file_has_name(const struct lasting_layer *layer, struct error *error);

// Saves a layer. Without tensors there is no file.
bool layer_file_save(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     uint64_t step, void *const parts[LASTING_PARTS], struct layer_written *written,
                     struct error *error);

// Reads a layer. A file that is damaged or of another layer is refused, with file, place, and checksums. Parts are
// written including their gaps. If all parts but the weights are NULL, the optimizer's file is not read.
bool layer_file_load(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     const struct layer_written *written, void *const parts[LASTING_PARTS], struct error *error);

#endif
