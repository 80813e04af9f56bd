// State that each copy of a stage keeps for itself, so that it is in no layer's file: what compression has lost of
// its momentum (optimizer_compresses()). A checkpoint has a file for each copy, beside those of the layers and in the
// same format:
//
//     stage0.copy1.safetensors    a tensor stage0.copy1.error, F32, all numbers of the stage
//
// They are useful only for the same plan.
#ifndef RUNTIME_CHECKPOINT_COPY_STATES_H
#define RUNTIME_CHECKPOINT_COPY_STATES_H

#include "runtime/checkpoint/layer_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/pipeline.h"

struct copy_state {
    uint32_t stage, copy;
    char name[40];
    struct lasting_tensor tensor;
};

struct copy_states {
    struct copy_state *at;  // in order of stages, then copies; also those on other ranks
    size_t count;           // 0: the optimizer keeps no such state, or no stage has copies
};

bool copy_states_open(struct copy_states *states, const struct pipeline *pipeline, struct error *error);
void copy_states_close(struct copy_states *states);

// Whether the manifest's copy states are these, of this run's plan.
bool copy_states_match(const struct copy_states *states, const struct manifest *was, const struct manifest *now);

// The state in the form of a layer, for its file.
struct lasting_layer copy_state_layer(const struct copy_state *state);
extern const struct lasting_form copy_state_form;

bool copy_state_is_here(const struct copy_state *state, const struct pipeline *pipeline);
bool copy_state_write(const struct copy_state *state, const struct pipeline *pipeline, const void *host,
                      struct error *error);

// Buffers on the host for the states that are here, and what is known of their files once written.
struct copy_files {
    struct copy_states states;
    void **kept;                   // by state; NULL: it is on another rank
    struct manifest_layer *files;  // by state; the names belong to the states
};

bool copy_files_open(struct copy_files *files, const struct pipeline *pipeline, struct error *error);
void copy_files_close(struct copy_files *files);
bool copy_files_read(struct copy_files *files, const struct pipeline *pipeline, struct error *error);
bool copy_files_save(struct copy_files *files, const char *folder, uint64_t step, struct error *error);

#endif
