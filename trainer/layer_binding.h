// Private: a model's layer as the runtime's functions find it behind `self`.
#ifndef TRAINER_LAYER_BINDING_H
#define TRAINER_LAYER_BINDING_H

#include "models/shards.h"
#include "trainer/model_layers.h"

// Where the shards of a layer, of one of its copies, add up.
struct summing {
    struct shard_sum sum;
    struct shard_meeting *meeting;
    struct attendance at;
};

// What a layer's functions find behind `self`.
struct layer_binding {
    struct layer layer;  // which has asked the device; of all shards as one the first
    struct layer *all;   // of those all, `shard_count` of them; else NULL
    uint32_t shard_count;
    struct layer_sizes tied;   // likewise: a shard's of what the layer is tied to
    struct summing *sums;  // of a shard by itself: by copy; else NULL
    struct batch_settings settings;
    size_t rows, sequence;
    int32_t *tokens, *targets;  // of the micro-batch at hand, per copy; only where needed
    uint64_t batch_at;          // where in the forward's workspace the device finds them, behind the layer's own
    struct weir_range *undecayed;
    struct weir_tensor tensors[LAYER_TENSORS];
    const struct weir_layer *inputs[2];  // of one with a skip
};

// A pass of the model's layer; of a forward, with what it reads of the data, and where the loss goes.
struct layer_pass binding_pass_of(const struct layer_binding *binding, const struct weir_pass *pass);
struct layer_pass binding_forward_pass_of(const struct layer_binding *binding, const struct weir_pass *pass);

// All shards of the binding's layer as one (joined_shards.c): they are made, and the layer's sizes and functions become
// those of all.
bool binding_open_shards(struct layer_binding *binding, const struct model *model, struct device *device,
                         struct sharding sharding, struct error *error);
void binding_join_shards(const struct layer_binding *binding, struct weir_layer *layer);

#endif
