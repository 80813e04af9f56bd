#include "runtime/stages/queued_layers.h"

#include <stdlib.h>

#include "runtime/stages/chain.h"
#include "runtime/stages/layer_inputs.h"

struct queued_call {
    const struct weir_layer *layer;
    layer_function function;
    struct weir_pass pass;
};

static void do_call(struct queue *queue, const void *arguments)
{
    const struct queued_call *call = arguments;
    struct error error = { 0 };
    if (!chain_call_layer(call->layer, call->function, &call->pass, &error))
        queue_fail(queue, error.text);
}

static bool give(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass)
{
    const struct queued_call call = { layer, function, *pass };
    queue_call(pass->queue, do_call, &call, sizeof call);
    return true;
}

static bool forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_layer *layer = self;
    (void)error;
    return give(layer, layer->forward, pass);
}

static bool backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_layer *layer = self;
    (void)error;
    return give(layer, layer->backward, pass);
}

static bool backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_layer *layer = self;
    (void)error;
    return give(layer, layer->backward_input, pass);
}

static bool backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_layer *layer = self;
    (void)error;
    return give(layer, layer->backward_weight, pass);
}

struct queued_beginning {
    const struct weir_layer *layer;
    void *parameters;
};

static void do_initialize(struct queue *queue, const void *arguments)
{
    const struct queued_beginning *beginning = arguments;
    const struct weir_layer *layer = beginning->layer;
    struct weir_error trouble = { 0 };
    if (!layer->initialize(layer->self, queue, beginning->parameters, &trouble))
        queue_fail(queue, trouble.text);
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    const struct queued_beginning beginning = { self, parameters };
    (void)error;
    queue_call(queue, do_initialize, &beginning, sizeof beginning);
    return true;
}

struct weir_layer *queued_layers_create(const struct weir_layer *layers, size_t count, struct error *error)
{
    struct weir_layer *queued = layers_copy(layers, NULL, count, error);
    for (size_t l = 0; queued && l < count; l++) {
        queued[l].self = (void *)(uintptr_t)&layers[l];
        queued[l].forward = forward;
        queued[l].backward_input = backward_input;
        queued[l].backward_weight = backward_weight;
        queued[l].backward = layers[l].backward ? backward : NULL;
        queued[l].initialize = layers[l].initialize ? initialize : NULL;
    }
    return queued;
}
