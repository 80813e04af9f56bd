// A model's layers in the form that the runtime runs and the profiler measures.
//
// The first layer needs the bytes of a micro-batch, and the last the bytes that follow them; or pixels and labels. Both
// take these from the data, by seed, step and micro-batch. Each rank therefore finds its own, and no rank has to send
// them.
#ifndef TRAINER_MODEL_LAYERS_H
#define TRAINER_MODEL_LAYERS_H

#include "common/public/weir_layer.h"
#include "models/shards.h"
#include "partitioner/plan/plan.h"
#include "runtime/shards/shard_group.h"
#include "trainer/data/sample_data.h"
#include "trainer/data/text_data.h"

enum batches {
    BATCHES_RANDOM,  // bytes drawn from the seed, for verifying and profiling, which need no text
    BATCHES_TRAIN,
    BATCHES_HELD,    // held-out batch number `micro_batch`; without dropout
};

// The place of a training run in its samples. It may be set until the first step.
struct sample_course {
    const struct sample_data *data;  // borrowed
    struct augmentation augmentation;
    uint64_t pass_samples;           // of a pass through the schedule
    uint64_t offset;                 // pass p begins with sample p * pass_samples + offset, modulo 2^64
    // What evaluations read; of no samples: what is held out. Evaluation e (weir_pass.step) begins with sample
    // e * evaluation_samples of them
    struct sample_range evaluated;
    uint64_t evaluation_samples;
};

struct routing_record;

struct model_layers {
    const struct model *model;
    struct weir_layer *layers;  // model->layer_count of them
    size_t layer_count;
    struct layer_binding *bindings;
};

struct batch_settings {
    enum batches batches;
    const struct text_data *text;  // borrowed; only for BATCHES_TRAIN and BATCHES_HELD
    // Likewise, of a model of pictures. Its evaluations (weir_pass.is_training is false) read samples in order
    const struct sample_course *course;
    uint64_t seed;                 // for initial weights, dropout and random batches
    uint32_t samples;              // micro-batches that one update averages over
    uint64_t batch;                // samples that it averages over, if the last micro-batch has fewer; 0: all are full
    uint32_t copies;               // copies of a layer that may be called at the same time; 0: one
    // A forward without room for the rows of experts notes here how many there are, and the loss is NaN. NULL: it fails
    uint64_t *lacked_rows;
    struct routing_record *routing;  // of what routers choose in training, or NULL
};

// Settings with random batches, for the samples and copies of a schedule. Or of a plan's schedule, with `runs` times
// the plan's micro-batches in a pass; returns false with `error` if it cannot be made.
struct batch_settings batch_settings_for(const struct schedule *schedule, uint64_t seed);
bool batch_settings_of(const struct plan *plan, uint32_t runs, uint64_t seed, struct batch_settings *settings,
                       struct error *error);

// Sets the samples of an iteration, for a schedule that flushes; 0: as many as there is room for. All micro-batches
// are full except the last, whose shapes stay those of a full one. Its spare rows repeat its last sample. These rows
// affect neither the loss nor, to the last bit, any gradient.
// False with `error` if there is no room for so many samples, if they are so few that a micro-batch would be empty,
// or if the schedule does not flush.
bool batch_settings_take(struct batch_settings *settings, const struct model *model, uint64_t batch, bool flushes,
                         struct error *error);

// How layers are split over devices (models/shards.h). Either each layer becomes one of its shards, which adds up
// with the others in a collective (shard_group.h). Or, for the sequential twin, all shards of a layer run as one
// layer, whose parameters and memory are those of the shards one after the other.
struct splitting {
    const uint32_t *shards;         // by layer, the number of shards; 0 and 1: the layer is whole. NULL: all are whole
    const size_t *rooms;            // by layer, rows of tables on the device; 0: all. NULL: all of all tables
    const bool *messages;           // by layer, whether the runtime exchanges what it reads. NULL: of none
    struct host_tables *host;       // that has the others; NULL: nobody has
    bool looks_up;                  // layers with tables there compute on the host, and have no parameters here
    struct sharding how;            // its `shards` aside
    uint32_t shard;                 // which shard; a layer split into too few shards to have it is not run
    struct shard_group *group;  // with at least layers * copies places; borrowed. NULL: all shards run as one layer
};

// Makes the layers for a device, which is asked how much workspace its kernels need. Borrows the model, which must
// have the device's precision (bf16 and fp16 may differ). Returns NULL with `error` on failure. Freed by
// model_layers_free().
struct model_layers *model_layers_create(const struct model *model, struct device *device,
                                         const struct batch_settings *settings, struct error *error);
struct model_layers *model_layers_create_split(const struct model *model, struct device *device,
                                               const struct batch_settings *settings,
                                               const struct splitting *splitting, struct error *error);
void model_layers_free(struct model_layers *layers);

#endif
