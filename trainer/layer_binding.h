// Private to the trainer: what the runtime's layer functions find behind `self` for a layer of a model.
#ifndef TRAINER_LAYER_BINDING_H
#define TRAINER_LAYER_BINDING_H

#include "models/shards.h"
#include "trainer/click_batch.h"
#include "trainer/model_layers.h"

// How the shards of one copy of a layer add up: the callback, the collective of its tensor-parallel group
// (shard_group.h), and this shard's place in that.
struct summing {
    struct shard_sum sum;
    struct shard_group *group;
    struct attendance at;
};

struct layer_binding {
    struct layer layer;  // its workspace sizes are known (layer_ask()). With all shards in one layer: the first shard
    struct layer *all;   // all shards, `shard_count` of them, if they are run as one layer; else NULL
    uint32_t shard_count;
    struct layer_sizes tied;   // also only then: sizes of a shard of the layer that this one is tied to
    uint64_t input_share[LAYER_INPUTS];  // likewise, if shards have rows of their own: bytes of their inputs
    struct summing *sums;  // by copy, if this is a single shard; else NULL
    struct batch_settings settings;
    size_t rows, sequence;
    size_t classes;     // what is drawn for random batches is below it
    int32_t *tokens, *targets;  // of the current micro-batch, per copy; NULL for layers that need neither
    float *pixels;              // likewise, for a source of pictures
    void *own;                  // of these, those of a member that owns rows; of all members, one behind the other
    struct click_batch *clicks; // likewise, for a source of numbers or ids
    struct host_tables *host;   // that computes the forward; NULL: the device does
    const struct row_slots *slots;  // rows on the device of tables on the host; else NULL
    uint64_t batch_at;          // byte offset of these in the forward's workspace on the device, after the layer's own
    struct weir_range *undecayed;
    struct weir_tensor tensors[LAYER_TENSORS];
    const struct weir_layer *inputs[LAYER_INPUTS];
    struct weir_tensor states[LAYER_TENSORS];
};

// Samples of the whole micro-batch that count towards the loss, and how many of so many are those of a layer.
size_t binding_samples(const struct layer_binding *binding, const struct weir_pass *pass);
size_t binding_samples_of(const struct layer *layer, size_t samples);

// Converts a pass of the runtime into one of the model's layer. For a forward it also fetches the tokens or targets
// that the layer needs, and says where the loss goes.
struct layer_pass binding_pass_of(const struct layer_binding *binding, const struct weir_pass *pass);
struct layer_pass binding_forward_pass_of(const struct layer_binding *binding, const struct weir_pass *pass);

// The ids of a micro-batch as a layer that need not be the binding's own reads them: another member's, or one with all
// rows of its tables.
void binding_gather_clicks(const struct layer_binding *binding, const struct layer *layer, const struct weir_pass *pass,
                           struct click_batch *batch);

// The numbers or ids of a member's samples; of all samples, for a layer without members.
void binding_fetch_clicks(const struct layer_binding *binding, uint32_t member, struct layer_pass *pass);

// Runs all shards of a layer as one layer (joined_shards.c): makes the shards, then replaces the layer's sizes and
// functions by those of all shards together.
bool binding_open_shards(struct layer_binding *binding, const struct model *model, struct device *device,
                         struct sharding sharding, struct error *error);
void binding_join_shards(const struct layer_binding *binding, struct weir_layer *layer);

#endif
