#include "runtime/twin/twin_parts.h"

#include <stdlib.h>

#include "common/number.h"
#include "runtime/stages/chain.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_kept.h"
#include "runtime/stages/layer_state.h"
#include "runtime/twin/twin_compressed.h"

static uint32_t stage_of(const struct twin_settings *settings, size_t layer)
{
    uint32_t stage = 0;
    while (settings->first_of_stage[stage + 1] <= layer)
        stage++;
    return stage;
}

static void *get(struct twin *twin, uint64_t bytes, bool *good, struct error *error)
{
    if (!*good)
        return NULL;
    void *memory = device_allocate(twin->device, bytes ? round_to_256(bytes) : 256, error);
    *good = memory != NULL;
    if (memory)
        queue_zero(twin->queue, memory, bytes ? round_to_256(bytes) : 256);
    return memory;
}

// NULL if the twin is not trained.
static const struct stage_updates *updates_of(const struct twin *twin, size_t layer)
{
    return twin->settings.schedule ? &twin->updates.stages[stage_of(&twin->settings, layer)] : NULL;
}

// Shares are in order of their stages, since layers are.
static bool allocate_shares(struct twin *twin, struct error *error)
{
    bool good = true;
    twin->shares = calloc(twin->layer_count, sizeof twin->shares[0]);
    if (!twin->shares)
        return error_no_memory(error, "the sequential twin");
    for (size_t l = 0; good && l < twin->layer_count; l++) {
        const struct weir_layer *tied = twin->layers[l].tied;
        const size_t owner = tied ? (size_t)(tied - twin->layers) : l;
        if (twin->own[owner].stage == twin->own[l].stage || twin_share_of(twin, l, owner))
            continue;
        struct twin_share *share = &twin->shares[twin->share_count++];
        const uint64_t bytes = number_count(twin, owner) * sizeof(float);
        *share = (struct twin_share){ .stage = twin->own[l].stage, .owner = owner };
        share->gradients = get(twin, bytes, &good, error);
        share->sum = get(twin, bytes, &good, error);
    }
    return good;
}

static uint64_t stage_count(const struct twin *twin, uint32_t stage)
{
    uint64_t count = 0;
    for (size_t l = 0; l < twin->layer_count; l++)
        count += twin->own[l].stage == stage ? number_count(twin, l) : 0;
    return count;
}

static bool allocate_compressed(struct twin *twin, struct error *error)
{
    const struct schedule *schedule = twin->settings.schedule;
    const struct optimizer *optimizer = &twin->settings.optimizer;
    bool good = true;
    if (!schedule || !optimizer_compresses(optimizer->kind) || optimizer->own)
        return true;
    twin->compressed = calloc(schedule->stages, sizeof *twin->compressed);
    if (!twin->compressed)
        return error_no_memory(error, "the sequential twin");
    for (uint32_t s = 0; good && s < schedule->stages; s++)
        if (twin->updates.stages[s].sums > 1)
            good = twin_compressed_open(&twin->compressed[s], twin->device, twin->queue, twin->updates.stages[s].sums,
                                   stage_count(twin, s), error);
    return good;
}

static bool find_exempt(struct twin *twin, size_t l, struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct exempt *exempt = twin->own[l].exempt = calloc(layer->undecayed_count + 1, sizeof *exempt);
    if (!exempt)
        return error_no_memory(error, "the sequential twin");
    for (size_t i = 0; i < layer->undecayed_count; i++)
        exempt[i] = (struct exempt){ layer->undecayed[i].first / number_bytes(twin),
                                     layer->undecayed[i].end / number_bytes(twin) };
    return true;
}

static bool allocate(struct twin *twin, const struct profile *profile, struct error *error)
{
    bool good = true;
    const struct storage storage = { .optimizer = twin->settings.optimizer.kind };
    uint64_t workspace = 0, part = 0;
    for (size_t l = 0; l < twin->layer_count; l++) {
        const struct weir_layer *layer = &twin->layers[l];
        struct twin_layer *memory = &twin->own[l];
        const struct stage_updates *updates = updates_of(twin, l);
        memory->stage = updates ? stage_of(&twin->settings, l) : 0;
        memory->versions = updates ? updates->versions : 1;
        memory->weights = get(twin, memory->versions * parameter_bytes(twin, l), &good, error);
        const uint64_t floats = number_count(twin, l) * sizeof(float);
        const struct row_list list = twin_list(twin, l, 0);
        const uint64_t listed = list.room > 0 ? twin_table_parts(twin, l)
                                              * row_list_bytes(list.room, list.rows, list.columns) : 0;
        memory->gradients = get(twin, listed > 0 ? listed : floats, &good, error);
        if (updates && updates->sums > 1)
            memory->sum = get(twin, listed > 0 ? listed : floats, &good, error);
        good = good && find_exempt(twin, l, error);
        memory->state = get(twin, storage_state_bytes(&storage, profile, (uint32_t)l), &good, error);
        memory->output = get(twin, twin->splits * part_bytes(twin, layer->output_bytes), &good, error);
        memory->saved = get(twin, twin->splits * part_bytes(twin, layer_kept_bytes(layer)), &good, error);
        if (twin->splits > 1 && layer->shared_by_parts_bytes > 0) {
            memory->shared_by_parts = get(twin, layer->shared_by_parts_bytes, &good, error);
            memory->shared_by_parts_gradient = get(twin, layer->shared_by_parts_bytes, &good, error);
        }
        memory->held = get(twin, layer->held_for_weight_bytes, &good, error);
        if (layer->state_bytes > 0)
            memory->layer_state = get(twin, layer->state_bytes, &good, error);
        if (layer->statistics_bytes > 0 && updates)
            memory->statistics = get(twin, twin->settings.schedule->micro_batches
                                               * round_to_256(layer->statistics_bytes), &good, error);
        memory->output_gradient = get(twin, layer->output_bytes, &good, error);
        workspace = layer->workspace_bytes > workspace ? layer->workspace_bytes : workspace;
        workspace = layer->backward_workspace_bytes > workspace ? layer->backward_workspace_bytes : workspace;
        part = layer->output_bytes > part ? layer->output_bytes : part;
    }
    twin->workspace = get(twin, workspace, &good, error);
    for (size_t i = 0; i < WEIR_MOST_INPUTS; i++)
        twin->parts[i] = get(twin, part, &good, error);
    if (twin->settings.optimizer.clip > 0 || twin->scaling.scale > 0)
        twin->norms = get(twin, twin_norm_count(twin) * sizeof *twin->norms, &good, error);
    return good && allocate_shares(twin, error) && allocate_compressed(twin, error);
}

static bool open_updates(struct twin *twin, struct error *error)
{
    const struct schedule *schedule = twin->settings.schedule;
    twin->splits = schedule ? schedule->splits : 1;
    if (!auxiliary_losses_open(&twin->auxiliary, layers_auxiliary_count(twin->layers, twin->layer_count),
                               (schedule ? schedule->micro_batches : 0) + 1u, twin->splits, error))
        return false;
    if (!schedule)
        return true;
    twin->begun = calloc(schedule->stages, sizeof *twin->begun);
    twin->part_losses = calloc((size_t)schedule->micro_batches * schedule->splits + 1, sizeof *twin->part_losses);
    return ((twin->begun && twin->part_losses) || error_no_memory(error, "the sequential twin"))
        && updates_open(&twin->updates, schedule, twin->settings.shard, error);
}

struct twin *twin_create(const struct weir_layer *layers, size_t layer_count, struct device *device,
                         const struct twin_settings *settings, struct error *error)
{
    struct twin *twin = calloc(1, sizeof *twin + layer_count * sizeof twin->own[0]);
    if (!twin)
        return error_null(error_no_memory(error, "the sequential twin"));
    twin->layers = layers;
    twin->layer_count = layer_count;
    twin->settings = *settings;
    twin->device = device;
    twin->queue = queue_create(device, error);
    struct profile *profile = chain_profile(layers, layer_count, precision_name(device_precision(device)), error);
    bool good = profile && twin->queue
        && loss_scaling_open(&twin->scaling, &settings->scaling, device_precision(device), error)
        && open_updates(twin, error) && allocate(twin, profile, error);
    profile_free(profile);
    for (size_t l = 0; good && l < layer_count; l++) {
        good = layer_parameters_begin(&layers[l], twin->queue, twin->own[l].weights, error)
            && layer_state_begin(&layers[l], twin->queue, twin->own[l].layer_state, error);
        optimizer_begin(&settings->optimizer, twin->queue, weights_of(twin, l, 0), twin->own[l].state,
                        number_count(twin, l));
    }
    if (!good || !queue_wait(twin->queue, error)) {
        twin_free(twin);
        return NULL;
    }
    return twin;
}

void twin_free(struct twin *twin)
{
    if (!twin)
        return;
    queue_free(twin->queue);  // first, so that its work no longer needs the memory
    for (size_t l = 0; l < twin->layer_count; l++) {
        struct twin_layer *memory = &twin->own[l];
        void *all[] = { memory->weights, memory->gradients, memory->sum, memory->state, memory->output, memory->saved,
                        memory->held, memory->output_gradient, memory->shared_by_parts,
                        memory->shared_by_parts_gradient, memory->layer_state, memory->statistics };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            device_release(twin->device, all[i]);
        free(memory->exempt);
    }
    for (size_t i = 0; i < twin->share_count; i++) {
        device_release(twin->device, twin->shares[i].gradients);
        device_release(twin->device, twin->shares[i].sum);
    }
    free(twin->shares);
    for (uint32_t s = 0; twin->compressed && s < twin->settings.schedule->stages; s++)
        twin_compressed_close(&twin->compressed[s]);
    free(twin->compressed);
    device_release(twin->device, twin->workspace);
    for (size_t i = 0; i < WEIR_MOST_INPUTS; i++)
        device_release(twin->device, twin->parts[i]);
    device_release(twin->device, twin->norms);
    if (twin->settings.schedule)
        updates_close(&twin->updates);
    free(twin->begun);
    free(twin->part_losses);
    auxiliary_losses_close(&twin->auxiliary);
    free(twin);
}

void twin_auxiliary_losses(const struct twin *twin, size_t layer, float *losses)
{
    const uint32_t number = layers_auxiliary_count(twin->layers, layer);
    for (uint32_t m = 0; m + 1 < twin->auxiliary.micro_batches; m++)
        losses[m] = twin->auxiliary.whole[(size_t)m * twin->auxiliary.count + number];
}

const void *twin_parameters(const struct twin *twin, size_t layer)
{
    return weights_of(twin, layer, twin->own[layer].newest);
}

const void *twin_state(const struct twin *twin, size_t layer)
{
    return twin->own[layer].layer_state;
}

const void *twin_saved(const struct twin *twin, size_t layer)
{
    return twin->own[layer].saved;
}

void twin_put_parameters(struct twin *twin, size_t layer, const void *host)
{
    queue_upload(twin->queue, weights_of(twin, layer, twin->own[layer].newest), host,
                 twin->layers[layer].parameter_bytes);
}

void twin_put_state(struct twin *twin, size_t layer, const void *host)
{
    queue_upload(twin->queue, twin->own[layer].layer_state, host, twin->layers[layer].state_bytes);
}

bool twin_read_output(const struct twin *twin, size_t layer, void *host, struct error *error)
{
    queue_download(twin->queue, host, twin->own[layer].output, twin->layers[layer].output_bytes);
    return queue_wait(twin->queue, error);
}
