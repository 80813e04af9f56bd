// What each copy of a stage keeps for itself, and so is in no layer's file: what signs have left of its momentum
// (runtime/signs.h). In a checkpoint a file each, beside those of layers and like one of them:
//
//     stage0.copy1.safetensors    a tensor stage0.copy1.error, F32, all numbers of the stage
//
// They are of use to the same plan alone.
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
    struct copy_state *at;  // in order of their stages, then copies; those elsewhere, too
    size_t count;           // 0: the optimizer keeps nothing of the kind, or no stage has copies
};

bool copy_states_open(struct copy_states *states, const struct pipeline *pipeline, struct error *error);
void copy_states_close(struct copy_states *states);

// Whether the manifest's are these, of this run's plan.
bool copy_states_match(const struct copy_states *states, const struct manifest *was, const struct manifest *now);

// As files know it.
struct lasting_layer copy_state_layer(const struct copy_state *state);
extern const struct lasting_form copy_state_form;

bool copy_state_is_here(const struct copy_state *state, const struct pipeline *pipeline);
bool copy_state_read(const struct copy_state *state, const struct pipeline *pipeline, void *host, struct error *error);
bool copy_state_write(const struct copy_state *state, const struct pipeline *pipeline, const void *host,
                      struct error *error);

// With memory of the host for those that are here, and what becomes of their files.
struct copy_files {
    struct copy_states states;
    void **kept;                   // by state; NULL: it is elsewhere
    struct manifest_layer *files;  // likewise; names are the states'
};

bool copy_files_open(struct copy_files *files, const struct pipeline *pipeline, struct error *error);
void copy_files_close(struct copy_files *files);
bool copy_files_read(struct copy_files *files, const struct pipeline *pipeline, struct error *error);
bool copy_files_save(struct copy_files *files, const char *folder, uint64_t step, struct error *error);

#endif
