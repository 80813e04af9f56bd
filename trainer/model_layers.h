// A model's layers in the form that the runtime runs and the profiler measures.
//
// What the first and the last layer need besides tensors (the bytes of a
// micro-batch, and the bytes after them) they take from the data, by seed, step
// and micro-batch: each rank finds its own, and nobody has to send them.
#ifndef TRAINER_MODEL_LAYERS_H
#define TRAINER_MODEL_LAYERS_H

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "runtime/shard_meeting.h"
#include "runtime/weir.h"
#include "trainer/text_data.h"

enum batches {
    BATCHES_RANDOM,  // bytes drawn from the seed: verifying and profiling need no text
    BATCHES_TRAIN,
    BATCHES_HELD,    // held-out batch number `micro_batch`; nothing is dropped
};

struct model_layers {
    const struct model *model;
    struct weir_layer *layers;  // model->layer_count of them
    size_t layer_count;
    struct layer_binding *bindings;
};

struct batch_settings {
    enum batches batches;
    const struct text_data *text;  // borrowed; of BATCHES_TRAIN and BATCHES_HELD
    uint64_t seed;                 // of the weights, of dropout and of what is drawn
    uint32_t samples;              // micro-batches that an update averages
    uint64_t batch;                // samples that it averages, where the last micro-batch has fewer; 0: all are full
    uint32_t copies;               // of a layer, that may be called at a time; 0: one
};

// Random batches for a schedule's samples and copies; or a plan's, whose schedule has
// `runs` times its micro-batches in a pass.
struct batch_settings batch_settings_for(const struct schedule *schedule, uint64_t seed);
bool batch_settings_of(const struct plan *plan, uint32_t runs, uint64_t seed, struct batch_settings *settings,
                       struct error *error);

// Of a schedule that flushes, so many samples in each iteration: all micro-batches are full but the last, whose shapes
// stay those of a full one. In the places behind its samples it has the last of them again, which counts for nothing:
// neither in the loss, nor, to the bit, in any gradient. 0: as many as there is room for. Refuses more, and so few that
// a micro-batch would have none.
bool batch_settings_take(struct batch_settings *settings, const struct model *model, uint64_t batch, bool flushes,
                         struct error *error);

// Layers that can be split over devices, split (models/shards.h): one shard of each, which adds up in a meeting; or,
// for the sequential twin, all of them as one layer, which has what shards have one behind the other.
struct splitting {
    const uint32_t *shards;         // by layer, over how many: 0 and 1, it is whole. NULL: all are
    bool shares_rows;               // each has a share of the rows of what goes in and out
    uint32_t shard;                 // a layer that is split over fewer is not run
    struct shard_meeting *meeting;  // with layers * copies places; borrowed. NULL: all shards as one layer
};

// For the device that they are to run on, which is asked what workspace its kernels take. The model is borrowed. Freed
// by model_layers_free().
struct model_layers *model_layers_create(const struct model *model, struct device *device,
                                         const struct batch_settings *settings, struct error *error);
struct model_layers *model_layers_create_split(const struct model *model, struct device *device,
                                               const struct batch_settings *settings,
                                               const struct splitting *splitting, struct error *error);
void model_layers_free(struct model_layers *layers);

#endif
