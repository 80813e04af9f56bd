// The parts of a transformer, one function each; together they compute the struct layer_estimate of estimate.h. For
// estimate.c.
#ifndef PROFILER_ESTIMATE_LAYER_COSTS_H
#define PROFILER_ESTIMATE_LAYER_COSTS_H

#include "profiler/estimate/estimate.h"
#include "profiler/estimate/kernel_times.h"

struct layer_maker {
    const struct transformer *model;
    const struct rated_device *device;
    const struct estimate_request *request;
    const struct rated_product *products;       // of the layers
    const struct rated_product *head_products;  // of the head, which stays in the wide type
    double number;        // bytes of a number of activations and weights
    double product_number;  // bytes of a number that products read
    enum layer_part part;
    bool sees_all;        // attention is to all tokens
    bool is_trained;      // the layer's parameters are
    bool goes_back;       // something in front of the layer, or of its first product, is trained
    double lora_rank;     // of its linear layers; 0: without LoRA
    bool is_grouped;      // products of several experts run as one group
    bool has_narrow;      // what the activation of the MLP or the experts reads is kept narrow
    double window;        // of attention, in tokens; 0: none
    double tensor;
    double tokens;        // of this device's part of the context
    double local_tokens;  // its share of these if sequence parallelism has split them
    struct layer_estimate *layer;
};

void make_embedding(struct layer_maker *maker);
void make_attention(struct layer_maker *maker);
void make_recurrent(struct layer_maker *maker);
void make_mlp(struct layer_maker *maker);
void make_experts(struct layer_maker *maker);
// What lies between an encoder and its decoder.
void make_crossing(struct layer_maker *maker);
// A layer after the blocks that predicts a token further on. Its logits and their loss are part of the head.
void make_predicted(struct layer_maker *maker);
void make_head(struct layer_maker *maker);

#endif
