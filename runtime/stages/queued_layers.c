#include "runtime/stages/queued_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stages/chain.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_state.h"

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
    void *memory;
};

static void do_initialize(struct queue *queue, const void *arguments)
{
    const struct queued_beginning *beginning = arguments;
    const struct weir_layer *layer = beginning->layer;
    struct weir_error trouble = { 0 };
    if (!layer->initialize(layer->self, queue, beginning->memory, &trouble))
        queue_fail(queue, trouble.text);
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    const struct queued_beginning beginning = { self, parameters };
    (void)error;
    queue_call(queue, do_initialize, &beginning, sizeof beginning);
    return true;
}

static void do_initialize_state(struct queue *queue, const void *arguments)
{
    const struct queued_beginning *beginning = arguments;
    struct error error = { 0 };
    if (!layer_state_begin(beginning->layer, queue, beginning->memory, &error))
        queue_fail(queue, error.text);
}

static bool initialize_state(void *self, void *queue, void *state, struct weir_error *error)
{
    const struct queued_beginning beginning = { self, state };
    (void)error;
    queue_call(queue, do_initialize_state, &beginning, sizeof beginning);
    return true;
}

// A fold with its arrays behind it, in one block, of which the queue keeps a copy.
struct queued_fold {
    const struct weir_layer *layer;
    struct weir_fold fold;
    const void *statistics[];
};

static void do_fold(struct queue *queue, const void *arguments)
{
    const struct queued_fold *call = arguments;
    struct weir_fold own = call->fold;
    struct error error = { 0 };
    own.statistics = call->statistics;
    own.micro_batches = (const uint32_t *)&call->statistics[own.count];
    if (!layer_fold(call->layer, &own, &error))
        queue_fail(queue, error.text);
}

static bool fold(void *self, const struct weir_fold *what, struct weir_error *error)
{
    const size_t pointers = what->count * sizeof what->statistics[0];
    const size_t numbers = what->count * sizeof what->micro_batches[0];
    struct queued_fold *call = malloc(sizeof *call + pointers + numbers);
    if (!call) {
        snprintf(error->text, sizeof error->text, "no memory for the statistics of an update");
        return false;
    }
    *call = (struct queued_fold){ .layer = self, .fold = *what };
    memcpy(call->statistics, what->statistics, pointers);
    memcpy(&call->statistics[what->count], what->micro_batches, numbers);
    queue_call(what->queue, do_fold, call, sizeof *call + pointers + numbers);
    free(call);
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
        queued[l].initialize_state = layers[l].initialize_state ? initialize_state : NULL;
        queued[l].fold = layers[l].fold ? fold : NULL;
    }
    return queued;
}
