// Which layers a layer reads from, as numbers in the model: the layer before it, or those that it names.
#ifndef RUNTIME_STAGES_LAYER_INPUTS_H
#define RUNTIME_STAGES_LAYER_INPUTS_H

#include "profiler/profile.h"
#include "common/public/weir_layer.h"

// The first layer reads from none.
static inline size_t layer_input_count(const struct weir_layer *layers, size_t layer)
{
    return layers[layer].inputs ? layers[layer].input_count : layer > 0;
}

static inline size_t layer_input(const struct weir_layer *layers, size_t layer, size_t i)
{
    return layers[layer].inputs ? (size_t)(layers[layer].inputs[i] - layers) : layer - 1;
}

static inline bool layer_reads(const struct weir_layer *layers, size_t layer, size_t from)
{
    bool reads = false;
    for (size_t i = 0; i < layer_input_count(layers, layer); i++)
        reads |= layer_input(layers, layer, i) == from;
    return reads;
}

// Bytes of one micro-batch of what the last layer, which computes the loss, reads first: the model's predictions.
static inline uint64_t layers_prediction_bytes(const struct weir_layer *layers, size_t layer_count)
{
    const size_t last = layer_count - 1;
    return layer_input_count(layers, last) > 0 ? layers[layer_input(layers, last, 0)].output_bytes : 0;
}

// How many of the first layers have an auxiliary loss. If layer `first` has one, this is its number among them.
static inline uint32_t layers_auxiliary_count(const struct weir_layer *layers, size_t first)
{
    uint32_t count = 0;
    for (size_t l = 0; l < first; l++)
        count += layers[l].has_auxiliary_loss;
    return count;
}

// For each layer the last layer that reads it; 0: none does. `last` has room for all layers.
static inline void layers_find_last_readers(const struct weir_layer *layers, size_t layer_count, uint32_t *last)
{
    for (size_t l = 0; l < layer_count; l++)
        last[l] = 0;
    for (size_t l = 0; l < layer_count; l++)
        for (size_t i = 0; i < layer_input_count(layers, l); i++)
            last[layer_input(layers, l, i)] = (uint32_t)l;
}

// Which layers have a backward: the last one, and those of whose output a layer with a backward wants a gradient.
// `has_backward` has room for all layers.
void layers_find_backwards(const struct weir_layer *layers, size_t layer_count, bool *has_backward);

// Whether a layer writes gradients of its inputs.
static inline bool layer_gives_gradients(const struct weir_layer *layers, const bool *has_backward, size_t layer)
{
    return has_backward[layer] && !layers[layer].has_constant_inputs;
}

// Bytes of a layer's backward: its own workspace and, if it has no function for B, `held`. For each input that other
// layers read as well, it also needs room for its own gradient, until that is added to theirs. 0 without a backward.
uint64_t layer_backward_room(const struct weir_layer *layers, size_t layer_count, const bool *has_backward,
                             size_t layer);

// The same for a plan, which adds the outputs that are there at the layer, for their gradients. Those of inputs without
// a gradient are taken off here.
uint64_t layer_planned_room(const struct weir_layer *layers, const bool *has_backward, size_t layer, uint64_t room);

// Notes the inputs of these layers in a profile, as edges if the layers are not a chain. Also notes that there is no
// cut between a layer and its inputs if it gives them no gradient.
bool layers_note_inputs(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                        struct error *error);

// A copy of the layers in another order (order[position] is the number of the layer there; NULL: the same order). Its
// layers read from and are tied to each other. One allocation, for free(). NULL without memory.
struct weir_layer *layers_copy(const struct weir_layer *layers, const uint32_t *order, size_t layer_count,
                               struct error *error);

#endif
