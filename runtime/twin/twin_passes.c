#include "device/kernels.h"
#include "runtime/ranks/weight_plan.h"
#include "runtime/stages/layer_kept.h"
#include "runtime/stages/layer_state.h"
#include "runtime/stages/pass_share.h"
#include "runtime/twin/twin_parts.h"

static float *tied_gradients(const struct twin *twin, size_t l, size_t owner)
{
    const struct twin_share *share = twin_share_of(twin, l, owner);
    return share ? share->gradients : twin->own[owner].gradients;
}

// The unit of computation: a micro-batch, or one part of its sequences.
struct piece {
    uint64_t step;
    uint32_t micro_batch, split, splits;
    bool is_evaluated;  // forward only, by itself
};

static struct update_samples samples_together(const struct twin *twin, const struct piece *piece)
{
    const struct twin_settings *settings = &twin->settings;
    if (piece->is_evaluated || !settings->schedule)
        return (struct update_samples){ .micro_batches = 1 };
    return (struct update_samples){ schedule_samples(settings->schedule), settings->batch, settings->micro_batch };
}

static struct weir_pass pass_of(const struct twin *twin, size_t l, uint64_t version, const struct piece *piece)
{
    const struct twin_layer *memory = &twin->own[l];
    const struct weir_layer *tied_to = twin->layers[l].tied;
    const size_t tied = tied_to ? (size_t)(tied_to - twin->layers) : 0;
    struct weir_pass pass = {
        .queue = twin->queue,
        .tied_parameters = tied_to ? weights_of(twin, tied, version) : NULL,
        .tied_gradients = tied_to ? tied_gradients(twin, l, tied) : NULL,
        .step = piece->step,
        .micro_batch = piece->micro_batch,
        .is_training = !piece->is_evaluated,
        .split = piece->split,
        .splits = piece->splits,
        .parameters = weights_of(twin, l, version),
        .loss_scale = twin->scaling.scale,
        .shared_by_parts = piece->splits > 1 ? memory->shared_by_parts : NULL,
        .shared_by_parts_gradient = piece->splits > 1 ? memory->shared_by_parts_gradient : NULL,
        .workspace = twin->workspace,
    };
    const struct update_samples samples = samples_together(twin, piece);
    pass_put_share(&pass, &samples);
    const struct weir_layer *layer = &twin->layers[l];
    layer_kept_give(layer, of_part(twin, memory->saved, layer_kept_bytes(layer), piece->split), &pass);
    for (size_t i = 0; i < layer_input_count(twin->layers, l); i++) {
        const size_t from = layer_input(twin->layers, l, i);
        pass.inputs[i] = of_part(twin, twin->own[from].output, twin->layers[from].output_bytes, piece->split);
    }
    return pass;
}

static float *auxiliary_of(const struct twin *twin, size_t l, const struct piece *piece)
{
    const struct auxiliary_losses *losses = &twin->auxiliary;
    const uint32_t micro_batch = piece->is_evaluated ? losses->micro_batches - 1 : piece->micro_batch;
    return twin->layers[l].has_auxiliary_loss
               ? auxiliary_losses_at(losses, micro_batch, piece->split) + layers_auxiliary_count(twin->layers, l)
               : NULL;
}

static bool forward(struct twin *twin, size_t l, uint64_t version, const struct piece *piece, float *loss,
                    struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct weir_pass pass = pass_of(twin, l, version, piece);
    pass.output = of_part(twin, twin->own[l].output, layer->output_bytes, piece->split);
    pass.loss = loss;
    pass.auxiliary_loss = auxiliary_of(twin, l, piece);
    layer_state_give(layer, twin->own[l].layer_state, twin_statistics(twin, l, piece->micro_batch), true, &pass);
    struct weir_error trouble = { 0 };
    return layer_returned(layer, layer->forward(layer->self, &pass, &trouble), &trouble, error);
}

// Each gradient goes to its place. If a later layer has written one there already, it goes beside it.
static void put_input_gradients(struct twin *twin, size_t l, struct weir_pass *pass)
{
    for (size_t i = 0; !twin->layers[l].has_constant_inputs && i < layer_input_count(twin->layers, l); i++) {
        const struct twin_layer *from = &twin->own[layer_input(twin->layers, l, i)];
        pass->input_gradients[i] = from->has_gradient ? twin->parts[i] : from->output_gradient;
    }
}

static void add_input_gradients(struct twin *twin, size_t l, uint32_t splits)
{
    for (size_t i = 0; !twin->layers[l].has_constant_inputs && i < layer_input_count(twin->layers, l); i++) {
        const size_t from = layer_input(twin->layers, l, i);
        struct twin_layer *source = &twin->own[from];
        if (source->has_gradient)
            kernel_add(twin->queue, source->output_gradient, source->output_gradient, twin->parts[i],
                       twin->layers[from].output_bytes / splits / number_bytes(twin));
        source->has_gradient = true;
    }
}

// Runs the backward of a layer. If `adds`, the gradients of its parameters are added as well.
static bool backward(struct twin *twin, size_t l, uint64_t version, const struct piece *piece, bool adds,
                     struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    const struct twin_layer *memory = &twin->own[l];
    if (l + 1 < twin->layer_count && !memory->has_gradient)
        return true;
    struct weir_pass pass = pass_of(twin, l, version, piece);
    layer_state_give(layer, memory->layer_state, NULL, false, &pass);
    pass.gradients = memory->gradients;
    pass.gradient_rows = twin_table_parts(twin, l) * twin_list(twin, l, 0).room;
    pass.held = memory->held;
    put_input_gradients(twin, l, &pass);
    if (l + 1 < twin->layer_count) {
        pass.output_gradient = memory->output_gradient;
        if (layer->held_for_weight_bytes > 0) {
            queue_copy(twin->queue, memory->held, memory->output_gradient, layer->output_bytes / piece->splits);
            pass.output_gradient = memory->held;
        }
    }
    struct weir_error trouble = { 0 };
    const bool good = layer->backward_input(layer->self, &pass, &trouble)
                   && (!adds || layer->backward_weight(layer->self, &pass, &trouble));
    add_input_gradients(twin, l, piece->splits);
    return layer_returned(layer, good, &trouble, error);
}

// --- all layers -----------------------------------------------------------------------

static uint64_t version_met(const struct twin *twin, size_t l, uint32_t micro_batch)
{
    const uint32_t stage = twin->own[l].stage;
    return twin->begun[stage] + updates_met(&twin->updates, stage, micro_batch);
}

static bool forward_all(struct twin *twin, const struct piece *piece, struct error *error)
{
    float *loss = &twin->part_losses[(size_t)piece->micro_batch * piece->splits + piece->split];
    for (size_t l = 0; l < twin->layer_count; l++)
        if (!forward(twin, l, version_met(twin, l, piece->micro_batch), piece, loss, error))
            return false;
    return true;
}

bool twin_go_forward(struct twin *twin, uint64_t step, uint32_t micro_batch, struct error *error)
{
    struct piece piece = { .step = step, .micro_batch = micro_batch, .splits = twin->splits };
    for (; piece.split < piece.splits; piece.split++)
        if (!forward_all(twin, &piece, error))
            return false;
    return true;
}

static bool backward_all(struct twin *twin, const struct piece *piece, const bool *stages, struct error *error)
{
    size_t lowest = 0;
    for (size_t l = 0; l < twin->layer_count; l++)
        twin->own[l].has_gradient = false;
    while (!stages[twin->own[lowest].stage])
        lowest++;
    for (size_t l = twin->layer_count; l-- > lowest;)
        if (!backward(twin, l, version_met(twin, l, piece->micro_batch), piece, stages[twin->own[l].stage], error))
            return false;
    return true;
}

bool twin_add_gradients(struct twin *twin, uint64_t step, uint32_t micro_batch, const bool *stages,
                        struct error *error)
{
    struct piece piece = { .step = step, .micro_batch = micro_batch, .split = twin->splits, .splits = twin->splits };
    bool good = twin_go_forward(twin, step, micro_batch, error);
    while (good && piece.split-- > 0)
        good = backward_all(twin, &piece, stages, error);
    return good;
}

bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error)
{
    const struct piece whole = { .step = step, .micro_batch = micro_batch, .splits = 1, .is_evaluated = true };
    for (size_t l = 0; l < twin->layer_count; l++)
        if (!forward(twin, l, twin->own[l].newest, &whole, loss, error))
            return false;
    return queue_wait(twin->queue, error);
}
