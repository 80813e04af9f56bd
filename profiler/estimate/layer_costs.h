// The parts of a transformer, one function each: what estimate.h says of a layer. For estimate.c.
#ifndef PROFILER_ESTIMATE_LAYER_COSTS_H
#define PROFILER_ESTIMATE_LAYER_COSTS_H

#include "profiler/estimate/estimate.h"
#include "profiler/estimate/kernel_times.h"

struct layer_maker {
    const struct transformer *model;
    const struct rated_device *device;
    const struct estimate_request *request;
    const struct rated_product *products;       // of layers
    const struct rated_product *head_products;  // of the head, which stays wide
    double number;        // bytes of a number of activations and weights
    double product_number;  // of what products read
    bool is_grouped;      // products of several experts
    double window;        // of attention, in tokens; 0: none
    double tensor;
    double tokens;        // of this device's context
    double local_tokens;  // of them, where sequence parallelism has split them
    struct layer_estimate *layer;
};

void make_embedding(struct layer_maker *maker);
void make_attention(struct layer_maker *maker);
void make_mlp(struct layer_maker *maker);
void make_experts(struct layer_maker *maker);
// What predicts a token further on, behind the blocks; its logits and their loss are the head's.
void make_predicted(struct layer_maker *maker);
void make_head(struct layer_maker *maker);

#endif
