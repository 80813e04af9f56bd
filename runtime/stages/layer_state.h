// A layer's state without a gradient, and the statistics that a forward leaves for it, as calls of the layer get them.
#ifndef RUNTIME_STAGES_LAYER_STATE_H
#define RUNTIME_STAGES_LAYER_STATE_H

#include "common/error.h"
#include "common/public/weir_layer.h"

// Gives a call what it may have of these two areas. Only forwards in training get the statistics.
static inline void layer_state_give(const struct weir_layer *layer, const void *state, void *statistics,
                                    bool is_forward, struct weir_pass *pass)
{
    const bool reads = !pass->is_training || layer->state_reader == WEIR_STATE_READ_BY_TRAINING;
    pass->state = layer->state_bytes > 0 && reads ? state : NULL;
    pass->statistics = layer->statistics_bytes > 0 && is_forward && pass->is_training ? statistics : NULL;
}

// What a layer's function has returned, as an error of ours.
static inline bool layer_returned(const struct weir_layer *layer, bool good, const struct weir_error *trouble,
                                  struct error *error)
{
    return good || error_set_kind(error, ERROR_MACHINE, "layer %s: %s", layer->name, trouble->text);
}

// Writes the first parameters. What the layer does not write must be zero already.
static inline bool layer_parameters_begin(const struct weir_layer *layer, void *queue, void *parameters,
                                          struct error *error)
{
    struct weir_error trouble = { 0 };
    return !layer->initialize
        || layer_returned(layer, layer->initialize(layer->self, queue, parameters, &trouble), &trouble, error);
}

// The same for the first state.
static inline bool layer_state_begin(const struct weir_layer *layer, void *queue, void *state, struct error *error)
{
    struct weir_error trouble = { 0 };
    return layer->state_bytes == 0 || !layer->initialize_state
        || layer_returned(layer, layer->initialize_state(layer->self, queue, state, &trouble), &trouble, error);
}

static inline bool layer_fold(const struct weir_layer *layer, const struct weir_fold *fold, struct error *error)
{
    struct weir_error trouble = { 0 };
    return layer->fold(layer->self, fold, &trouble)
        || error_set_kind(error, ERROR_MACHINE, "layer %s: fold: %s", layer->name,
                          trouble.text[0] ? trouble.text : "failed without a reason");
}

#endif
