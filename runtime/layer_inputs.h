// Which layers a layer reads from, by their numbers in the model: the one before it, or those that it names.
#ifndef RUNTIME_LAYER_INPUTS_H
#define RUNTIME_LAYER_INPUTS_H

#include "profiler/profile.h"
#include "runtime/weir.h"

// None of the first.
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

// The last layer that reads each; 0: none does. `last` has room for all.
static inline void layers_find_last_readers(const struct weir_layer *layers, size_t layer_count, uint32_t *last)
{
    for (size_t l = 0; l < layer_count; l++)
        last[l] = 0;
    for (size_t l = 0; l < layer_count; l++)
        for (size_t i = 0; i < layer_input_count(layers, l); i++)
            last[layer_input(layers, l, i)] = (uint32_t)l;
}

// What a layer's backward needs besides the bytes that it names: `held`, where it has none at once; and its own part of
// each gradient that other layers have a part in, too, until that is added to theirs.
uint64_t layer_backward_room(const struct weir_layer *layers, size_t layer_count, size_t layer);

// Notes them in a profile of these layers, as edges where they are no chain.
bool layers_note_inputs(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                        struct error *error);

// A copy in another order (order[place]: the layer that stands there; NULL: the same), whose layers read from and are
// tied to each other. One piece of memory, for free().
struct weir_layer *layers_copy(const struct weir_layer *layers, const uint32_t *order, size_t layer_count,
                               struct error *error);

#endif
