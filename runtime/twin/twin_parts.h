// Private: the inside of a twin (twin.h), for the files that share it:
//
//     twin.c         its memory
//     twin_passes.c  forwards and backwards, layer by layer
//     twin_train.c   what an update adds up, and the update
#ifndef RUNTIME_TWIN_TWIN_PARTS_H
#define RUNTIME_TWIN_TWIN_PARTS_H

#include "common/number.h"
#include "runtime/auxiliary_losses.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_table.h"
#include "runtime/twin/twin.h"
#include "runtime/twin/twin_compressed.h"

struct twin_layer {
    uint32_t stage;
    uint64_t versions;  // how many are kept
    uint64_t newest;    // updates made so far
    char *weights;      // version v at v % versions
    float *gradients;   // of the current copy
    float *sum;         // of the copies before it, if there are several
    float *state;
    struct exempt *exempt;  // numbers without weight decay, undecayed_count ranges
    void *output, *saved;  // of all parts of a sequence, one behind the other
    void *held, *output_gradient, *shared_by_parts, *shared_by_parts_gradient;
    void *layer_state;     // without a gradient
    char *statistics;      // of each micro-batch, one behind the other
    bool has_gradient;  // for the current piece: a layer that reads the output has written a gradient
};

// What the layers of one stage add to the gradients of a tied layer on another stage.
struct twin_share {
    uint32_t stage;
    size_t owner;
    float *gradients, *sum;  // as a layer's
};

struct twin {
    const struct weir_layer *layers;
    size_t layer_count;
    struct twin_settings settings;
    struct device *device;
    struct queue *queue;
    void *workspace;
    uint32_t splits;     // parts into which sequences are split in training
    float *part_losses;  // by micro-batch, then part
    // Those of training, and behind the last micro-batch those of twin_loss()
    struct auxiliary_losses auxiliary;
    void *parts[WEIR_MOST_INPUTS];  // a layer's own gradients of inputs that already have a gradient
    struct updates updates;
    uint64_t *begun;  // per stage: the newest version when the pass began
    struct twin_share *shares;  // in order of their stages
    size_t share_count;
    float *norms;  // of each layer's gradients; NULL: no clipping and no loss scaling
    struct loss_scaling scaling;
    struct twin_compressed *compressed;  // by stage, if its copies compress; NULL: no stage ever does
    struct twin_layer own[];
};

static inline uint64_t parameter_bytes(const struct twin *twin, size_t layer)
{
    return round_to_256(twin->layers[layer].parameter_bytes);
}

// Bytes of one weight. Gradients and optimizer state are floats.
static inline uint64_t number_bytes(const struct twin *twin)
{
    return precision_bytes(device_precision(twin->device));
}

static inline uint64_t number_count(const struct twin *twin, size_t layer)
{
    return parameter_bytes(twin, layer) / number_bytes(twin);
}

// Members of a group that have parts of a layer's tables, one behind the other in its weights and gradients. 1: the
// layer is whole, or no table.
static inline uint32_t twin_table_parts(const struct twin *twin, size_t layer)
{
    const struct split_norms *split = twin->settings.split;
    return split && twin->layers[layer].row_columns > 0 ? split->layers[layer].members : 1;
}

// The gradient of a part of tables as a list of all its rows, if the optimizer updates only rows with a gradient. Any
// other optimizer has a gradient as large as the tables, which leaves the same bits: then room is 0.
static inline struct row_list twin_list(const struct twin *twin, size_t layer, uint32_t part)
{
    const struct optimizer *optimizer = &twin->settings.optimizer;
    const struct layer_table table = layer_table_of(&twin->layers[layer]);
    const uint64_t rows = table.rows / twin_table_parts(twin, layer);
    if (!optimizer_rows[optimizer->kind].is_lazy || optimizer->own || rows == 0)
        return (struct row_list){ .room = 0 };
    char *lists = (char *)twin->own[layer].gradients;
    return row_list_in(lists ? lists + part * row_list_bytes(rows, rows, table.columns) : NULL, rows, rows,
                       table.columns);
}

static inline bool twin_has_lists(const struct twin *twin, size_t layer)
{
    return twin_list(twin, layer, 0).room > 0;
}

static inline void *weights_of(const struct twin *twin, size_t layer, uint64_t version)
{
    return twin->own[layer].weights + version % twin->own[layer].versions * parameter_bytes(twin, layer);
}

// The size of one part of something with `bytes` bytes for a whole micro-batch.
static inline uint64_t part_bytes(const struct twin *twin, uint64_t bytes)
{
    return round_to_256((bytes + twin->splits - 1) / twin->splits);
}

static inline void *of_part(const struct twin *twin, void *parts, uint64_t bytes, uint32_t split)
{
    return (char *)parts + split * part_bytes(twin, bytes);
}

static inline uint32_t members_of(const struct twin *twin)
{
    return twin->settings.split ? twin->settings.split->members : 1;
}

static inline size_t twin_norm_count(const struct twin *twin)
{
    return twin->layer_count * members_of(twin);
}

// What the stage of a layer adds to the gradients of a tied layer on another stage. NULL: the owner is on that stage.
static inline const struct twin_share *twin_share_of(const struct twin *twin, size_t layer, size_t owner)
{
    for (size_t i = 0; i < twin->share_count; i++)
        if (twin->shares[i].stage == twin->own[layer].stage && twin->shares[i].owner == owner)
            return &twin->shares[i];
    return NULL;
}

// The statistics of a micro-batch; NULL: the layer has none, or the twin is not trained.
static inline void *twin_statistics(const struct twin *twin, size_t layer, uint32_t micro_batch)
{
    char *statistics = twin->own[layer].statistics;
    return statistics ? statistics + micro_batch * round_to_256(twin->layers[layer].statistics_bytes) : NULL;
}

// Runs the forward of a micro-batch, part by part.
bool twin_go_forward(struct twin *twin, uint64_t step, uint32_t micro_batch, struct error *error);

// Adds the gradients of one micro-batch, for the parameters of some stages.
bool twin_add_gradients(struct twin *twin, uint64_t step, uint32_t micro_batch, const bool *stages,
                        struct error *error);

#endif
