#include "runtime/stages/measure_chain.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/stages/chain.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_kept.h"
#include "runtime/stages/layer_state.h"
#include "runtime/stages/layer_table.h"

// A piece of device memory, and what the device counted for it.
struct piece {
    void *at;
    uint64_t bytes;
};

struct measured_layer {
    struct piece parameters, gradients, output, saved, held, output_gradient, workspace, backward_workspace;
    struct piece state, statistics;
};

enum { PIECES = sizeof(struct measured_layer) / sizeof(struct piece) };

struct measured_chain {
    struct measured callbacks;
    const struct weir_layer *layers;
    size_t layer_count;
    struct device *device;
    struct queue *queue;
    uint64_t step;
    float loss, auxiliary_loss;
    struct event **marks;  // only for a device that runs ahead
    size_t mark_count;
    bool *has_backward;    // by layer
    struct measured_layer own[];
};

static bool allocate(struct measured_chain *chain, struct piece *piece, uint64_t bytes, struct error *error)
{
    if (bytes == 0)
        return true;
    const uint64_t before = device_memory(chain->device).current_bytes;
    piece->at = device_allocate(chain->device, round_to_256(bytes), error);
    piece->bytes = device_memory(chain->device).current_bytes - before;
    if (piece->at)
        queue_zero(chain->queue, piece->at, round_to_256(bytes));
    return piece->at != NULL;
}

static bool allocate_layer(struct measured_chain *chain, size_t l, struct error *error)
{
    const struct weir_layer *layer = &chain->layers[l];
    struct measured_layer *measured = &chain->own[l];
    const uint64_t numbers = layer->parameter_bytes / precision_bytes(device_precision(chain->device));
    if (!allocate(chain, &measured->parameters, layer->parameter_bytes, error)
        || !allocate(chain, &measured->gradients, numbers * sizeof(float), error)
        || !allocate(chain, &measured->output, layer->output_bytes, error)
        || !allocate(chain, &measured->saved, layer_kept_bytes(layer), error)
        || !allocate(chain, &measured->held, layer->held_for_weight_bytes, error)
        || !allocate(chain, &measured->output_gradient, layer->output_bytes, error)
        || !allocate(chain, &measured->state, layer->state_bytes, error)
        || !allocate(chain, &measured->statistics, layer->statistics_bytes, error)
        || !allocate(chain, &measured->workspace, layer->workspace_bytes, error)
        || !allocate(chain, &measured->backward_workspace,
                     layer_backward_room(chain->layers, chain->layer_count, chain->has_backward, l), error))
        return false;
    return layer_parameters_begin(layer, chain->queue, measured->parameters.at, error)
        && layer_state_begin(layer, chain->queue, measured->state.at, error);
}

// --- callbacks -------------------------------------------------------------------

static bool call(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass,
                 struct error *error)
{
    struct weir_error trouble = { 0 };
    return layer_returned(layer, function(layer->self, pass, &trouble), &trouble, error);
}

static struct weir_pass pass_of(struct measured_chain *chain, size_t l, bool forward)
{
    const struct measured_layer *measured = &chain->own[l];
    const struct weir_layer *tied_to = chain->layers[l].tied;
    const struct measured_layer *tied = tied_to ? &chain->own[tied_to - chain->layers] : NULL;
    struct weir_pass pass = {
        .queue = chain->queue,
        .step = chain->step,
        .micro_batches = 1,
        .share = 1,
        .is_training = true,
        .parameters = measured->parameters.at,
        .gradients = measured->gradients.at,
        .tied_parameters = tied ? tied->parameters.at : NULL,
        .tied_gradients = tied ? tied->gradients.at : NULL,
        .output = measured->output.at,
        .held = measured->held.at,
        .output_gradient = l + 1 < chain->layer_count ? measured->output_gradient.at : NULL,
        .workspace = forward ? measured->workspace.at : measured->backward_workspace.at,
        .loss = forward ? &chain->loss : NULL,
        .auxiliary_loss = forward && chain->layers[l].has_auxiliary_loss ? &chain->auxiliary_loss : NULL,
    };
    layer_kept_give(&chain->layers[l], measured->saved.at, &pass);
    layer_state_give(&chain->layers[l], measured->state.at, measured->statistics.at, forward, &pass);
    for (size_t i = 0; i < layer_input_count(chain->layers, l); i++) {
        const struct measured_layer *from = &chain->own[layer_input(chain->layers, l, i)];
        pass.inputs[i] = from->output.at;
        if (layer_gives_gradients(chain->layers, chain->has_backward, l))
            pass.input_gradients[i] = from->output_gradient.at;
    }
    return pass;
}

// The output's gradient is at the beginning of `held` when I begins.
static bool run_input(struct measured_chain *chain, size_t l, struct weir_pass *pass, struct error *error)
{
    const struct weir_layer *layer = &chain->layers[l];
    if (layer->held_for_weight_bytes > 0 && pass->output_gradient) {
        queue_copy(chain->queue, pass->held, pass->output_gradient, layer->output_bytes);
        pass->output_gradient = pass->held;
    }
    return call(layer, layer->backward_input, pass, error);
}

static bool run_both(struct measured_chain *chain, size_t l, struct weir_pass *pass, struct error *error)
{
    const struct weir_layer *layer = &chain->layers[l];
    if (layer->backward)
        return call(layer, layer->backward, pass, error);
    pass->held = pass->workspace;
    pass->workspace = (void *)((uintptr_t)pass->workspace + round_to_256(layer->held_for_weight_bytes));
    return run_input(chain, l, pass, error) && call(layer, layer->backward_weight, pass, error);
}

static bool run(void *self, size_t l, enum phase phase, struct error *error)
{
    struct measured_chain *chain = self;
    const struct weir_layer *layer = &chain->layers[l];
    if (phase == PHASE_FORWARD && l == 0)
        chain->step++;
    struct weir_pass pass = pass_of(chain, l, phase == PHASE_FORWARD || phase == PHASE_RECOMPUTE);
    pass.is_rerun = phase == PHASE_RECOMPUTE;
    if (pass.is_rerun)
        pass.auxiliary_loss = NULL;
    if (!chain->has_backward[l] && phase != PHASE_FORWARD && phase != PHASE_RECOMPUTE)
        return true;
    switch (phase) {
    case PHASE_BACKWARD_INPUT:
        return run_input(chain, l, &pass, error);
    case PHASE_BACKWARD_WEIGHT:
        return call(layer, layer->backward_weight, &pass, error);
    case PHASE_BACKWARD:
        return run_both(chain, l, &pass, error);
    default:
        return call(layer, layer->forward, &pass, error);
    }
}

static bool wait(void *self, struct error *error)
{
    const struct measured_chain *chain = self;
    return queue_wait(chain->queue, error);
}

static bool mark(void *self, size_t number, struct error *error)
{
    struct measured_chain *chain = self;
    if (number == chain->mark_count) {
        struct event **marks = realloc(chain->marks, (number + 1) * sizeof(struct event *));
        if (!marks)
            return error_no_memory(error, "the times of layers");
        chain->marks = marks;
        if (!(marks[number] = event_create(chain->device, error)))
            return false;
        chain->mark_count++;
    }
    event_record(chain->marks[number], chain->queue);
    return true;
}

static uint64_t mark_ns(void *self, size_t number)
{
    const struct measured_chain *chain = self;
    return event_time_ns(chain->marks[number]);
}

static bool describe(void *self, size_t l, struct profile_layer *into, struct error *error)
{
    const struct measured_chain *chain = self;
    const struct weir_layer *layer = &chain->layers[l];
    const struct measured_layer *measured = &chain->own[l];
    into->name = strdup(layer->name);
    into->kind = strdup(layer->kind);
    into->parameter_bytes = measured->parameters.bytes;
    into->output_bytes = measured->output.bytes;
    layer_kept_note(layer, measured->saved.bytes, into);
    into->shared_by_parts_bytes = round_to_256(layer->shared_by_parts_bytes);
    into->input_kept = (enum input_kept)layer->input_kept;
    into->held_for_weight_bytes = measured->held.bytes;
    into->state_bytes = measured->state.bytes;
    into->statistics_bytes = measured->statistics.bytes;
    into->workspace_bytes = measured->workspace.bytes;
    into->backward_workspace_bytes =
        layer_planned_room(chain->layers, chain->has_backward, l, measured->backward_workspace.bytes);
    into->touched_rows = layer->touched_rows;
    into->summed_rows = layer->summed_rows;
    into->row_bytes = layer_table_of(layer).columns * precision_bytes(device_precision(chain->device));
    into->flops = layer->flops;
    return ((into->name && into->kind) || error_no_memory(error, "a layer's name"))
        && chain_note_shapes(layer, precision_bytes(device_precision(chain->device)), into, error);
}

static void note(void *self, struct text *notes)
{
    const struct measured_chain *chain = self;
    struct device_clocks clocks;
    if (device_clocks(chain->device, &clocks))
        text_add(notes, "Right behind the measurement the chip was clocked at %u MHz and its memory at %u MHz.",
                 clocks.chip_mhz, clocks.memory_mhz);
}

// --- life ------------------------------------------------------------------------

struct measured_chain *measured_chain_create(const struct weir_layer *layers, size_t layer_count,
                                             struct device *device, struct error *error)
{
    struct measured_chain *chain = calloc(1, sizeof *chain + layer_count * sizeof chain->own[0]);
    if (!chain)
        return error_null(error_no_memory(error, "layers to measure"));
    chain->callbacks = (struct measured){ .self = chain, .layer_count = layer_count, .run = run, .wait = wait,
                                          .describe = describe, .note = note };
    if (device_runs_ahead(device)) {
        chain->callbacks.mark = mark;
        chain->callbacks.mark_ns = mark_ns;
    }
    chain->layers = layers;
    chain->layer_count = layer_count;
    chain->has_backward = calloc(layer_count + 1, sizeof chain->has_backward[0]);
    chain->device = device;
    chain->queue = queue_create(device, error);
    chain->callbacks.has_sequences = layer_count > 0;
    for (size_t l = 0; l < layer_count; l++)
        chain->callbacks.has_sequences &= layers[l].most_splits > 1;
    bool good = chain->queue != NULL && (chain->has_backward || error_no_memory(error, "layers to measure"));
    if (good)
        layers_find_backwards(layers, layer_count, chain->has_backward);
    for (size_t l = 0; good && l < layer_count; l++)
        good = allocate_layer(chain, l, error);
    if (!good || !queue_wait(chain->queue, error)) {
        measured_chain_free(chain);
        return NULL;
    }
    return chain;
}

void measured_chain_free(struct measured_chain *chain)
{
    if (!chain)
        return;
    queue_free(chain->queue);  // first, so that its work no longer needs the memory
    for (size_t l = 0; l < chain->layer_count; l++) {
        const struct piece *pieces = (const struct piece *)&chain->own[l];
        for (size_t i = 0; i < PIECES; i++)
            device_release(chain->device, pieces[i].at);
    }
    for (size_t i = 0; i < chain->mark_count; i++)
        event_free(chain->marks[i]);
    free(chain->marks);
    free(chain->has_backward);
    free(chain);
}

const struct measured *measured_chain_callbacks(const struct measured_chain *chain)
{
    return &chain->callbacks;
}
