#include "runtime/twin/twin.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "device/kernels.h"
#include "runtime/chain.h"
#include "runtime/layer_inputs.h"
#include "runtime/twin/twin_signs.h"
#include "runtime/weight_plan.h"

struct twin_layer {
    uint32_t stage;
    uint64_t versions;  // how many are kept
    uint64_t newest;    // updates made so far
    char *weights;      // version v at v % versions
    float *gradients;   // of the copy at hand
    float *sum;         // of the copies before it, where there are several
    float *state;
    void *output, *saved;  // of each part of a sequence, one behind the other
    void *held, *output_gradient, *carried, *carried_gradient;
    bool has_gradient;  // of the piece at hand: a layer that reads it has set one
};

// What the layers of a stage add to the gradients of a layer on another one.
struct twin_share {
    uint32_t stage;
    size_t owner;
    float *gradients, *sum;  // as a layer's
};

struct twin {
    const struct weir_layer *layers;
    size_t layer_count;
    struct twin_settings settings;
    struct device *device;
    struct queue *queue;
    void *workspace;
    uint32_t splits;     // parts that sequences are trained in
    float *part_losses;  // by micro-batch, then part
    void *parts[WEIR_MOST_INPUTS];  // a layer's own gradients of what others have set one of
    struct updates updates;
    uint64_t *begun;  // per stage: the newest version when the pass began
    struct twin_share *shares;  // in order of their stages
    size_t share_count;
    float *norms;  // of each layer's gradients; NULL where nothing is clipped, and no loss is scaled
    struct loss_scaling scaling;
    struct twin_signs *signs;  // by stage, of those whose copies send some; NULL where none ever does
    struct twin_layer own[];
};

static uint64_t parameter_bytes(const struct twin *twin, size_t layer)
{
    return round_to_256(twin->layers[layer].parameter_bytes);
}

// Of one number of the weights; its gradient and what is kept of it are floats.
static uint64_t number_bytes(const struct twin *twin)
{
    return precision_bytes(device_precision(twin->device));
}

static uint64_t number_count(const struct twin *twin, size_t layer)
{
    return parameter_bytes(twin, layer) / number_bytes(twin);
}

static void *weights_of(const struct twin *twin, size_t layer, uint64_t version)
{
    return twin->own[layer].weights + version % twin->own[layer].versions * parameter_bytes(twin, layer);
}

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

// What a part has of so many bytes of a whole micro-batch.
static uint64_t part_bytes(const struct twin *twin, uint64_t bytes)
{
    return round_to_256((bytes + twin->splits - 1) / twin->splits);
}

static void *of_part(const struct twin *twin, void *parts, uint64_t bytes, uint32_t split)
{
    return (char *)parts + split * part_bytes(twin, bytes);
}

static uint32_t members_of(const struct twin *twin)
{
    return twin->settings.split ? twin->settings.split->members : 1;
}

static size_t norm_count(const struct twin *twin)
{
    return twin->layer_count * members_of(twin);
}

// NULL where nothing is trained.
static const struct stage_updates *updates_of(const struct twin *twin, size_t layer)
{
    return twin->settings.schedule ? &twin->updates.stages[stage_of(&twin->settings, layer)] : NULL;
}

static const struct twin_share *share_of(const struct twin *twin, size_t layer, size_t owner)
{
    for (size_t i = 0; i < twin->share_count; i++)
        if (twin->shares[i].stage == twin->own[layer].stage && twin->shares[i].owner == owner)
            return &twin->shares[i];
    return NULL;
}

// Layers come in order of their stages.
static bool allocate_shares(struct twin *twin, struct error *error)
{
    bool good = true;
    twin->shares = calloc(twin->layer_count, sizeof twin->shares[0]);
    if (!twin->shares)
        return error_no_memory(error, "the sequential twin");
    for (size_t l = 0; good && l < twin->layer_count; l++) {
        const struct weir_layer *tied = twin->layers[l].tied;
        const size_t owner = tied ? (size_t)(tied - twin->layers) : l;
        if (twin->own[owner].stage == twin->own[l].stage || share_of(twin, l, owner))
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

static bool allocate_signs(struct twin *twin, struct error *error)
{
    const struct schedule *schedule = twin->settings.schedule;
    const struct optimizer *optimizer = &twin->settings.optimizer;
    bool good = true;
    if (!schedule || !optimizer_sends_signs(optimizer->kind) || optimizer->own)
        return true;
    twin->signs = calloc(schedule->stages, sizeof *twin->signs);
    if (!twin->signs)
        return error_no_memory(error, "the sequential twin");
    for (uint32_t s = 0; good && s < schedule->stages; s++)
        if (twin->updates.stages[s].sums > 1)
            good = twin_signs_open(&twin->signs[s], twin->device, twin->queue, twin->updates.stages[s].sums,
                                   stage_count(twin, s), error);
    return good;
}

static bool allocate(struct twin *twin, const struct profile *profile, struct error *error)
{
    bool good = true;
    const struct holding holding = { .optimizer = twin->settings.optimizer.kind };
    uint64_t workspace = 0, part = 0;
    for (size_t l = 0; l < twin->layer_count; l++) {
        const struct weir_layer *layer = &twin->layers[l];
        struct twin_layer *own = &twin->own[l];
        const struct stage_updates *updates = updates_of(twin, l);
        own->stage = updates ? stage_of(&twin->settings, l) : 0;
        own->versions = updates ? updates->versions : 1;
        own->weights = get(twin, own->versions * parameter_bytes(twin, l), &good, error);
        const uint64_t floats = number_count(twin, l) * sizeof(float);
        if (updates && updates->sums > 1)
            own->sum = get(twin, floats, &good, error);
        own->gradients = get(twin, floats, &good, error);
        own->state = get(twin, holding_state_bytes(&holding, profile, (uint32_t)l), &good, error);
        own->output = get(twin, twin->splits * part_bytes(twin, layer->output_bytes), &good, error);
        own->saved = get(twin, twin->splits * part_bytes(twin, layer->saved_bytes), &good, error);
        if (twin->splits > 1 && layer->carried_bytes > 0) {
            own->carried = get(twin, layer->carried_bytes, &good, error);
            own->carried_gradient = get(twin, layer->carried_bytes, &good, error);
        }
        own->held = get(twin, layer->held_for_weight_bytes, &good, error);
        own->output_gradient = get(twin, layer->output_bytes, &good, error);
        workspace = layer->workspace_bytes > workspace ? layer->workspace_bytes : workspace;
        workspace = layer->backward_workspace_bytes > workspace ? layer->backward_workspace_bytes : workspace;
        part = layer->output_bytes > part ? layer->output_bytes : part;
    }
    twin->workspace = get(twin, workspace, &good, error);
    for (size_t i = 0; i < WEIR_MOST_INPUTS; i++)
        twin->parts[i] = get(twin, part, &good, error);
    if (twin->settings.optimizer.clip > 0 || twin->scaling.scale > 0)
        twin->norms = get(twin, norm_count(twin) * sizeof *twin->norms, &good, error);
    return good && allocate_shares(twin, error) && allocate_signs(twin, error);
}

static bool told(const struct weir_layer *layer, bool good, const struct weir_error *trouble, struct error *error)
{
    return good || error_set_kind(error, ERROR_MACHINE, "layer %s: %s", layer->name, trouble->text);
}

static bool open_updates(struct twin *twin, struct error *error)
{
    const struct schedule *schedule = twin->settings.schedule;
    twin->splits = schedule ? schedule->splits : 1;
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
    if (!twin) {
        error_no_memory(error, "the sequential twin");
        return NULL;
    }
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
        struct weir_error trouble = { 0 };
        if (layers[l].initialize)
            good = told(&layers[l], layers[l].initialize(layers[l].self, twin->queue, twin->own[l].weights, &trouble),
                        &trouble, error);
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
    queue_free(twin->queue);  // first: it is done with the memory then
    for (size_t l = 0; l < twin->layer_count; l++) {
        struct twin_layer *own = &twin->own[l];
        void *all[] = { own->weights, own->gradients, own->sum, own->state, own->output, own->saved, own->held,
                        own->output_gradient, own->carried, own->carried_gradient };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            device_release(twin->device, all[i]);
    }
    for (size_t i = 0; i < twin->share_count; i++) {
        device_release(twin->device, twin->shares[i].gradients);
        device_release(twin->device, twin->shares[i].sum);
    }
    free(twin->shares);
    for (uint32_t s = 0; twin->signs && s < twin->settings.schedule->stages; s++)
        twin_signs_close(&twin->signs[s]);
    free(twin->signs);
    device_release(twin->device, twin->workspace);
    for (size_t i = 0; i < WEIR_MOST_INPUTS; i++)
        device_release(twin->device, twin->parts[i]);
    device_release(twin->device, twin->norms);
    if (twin->settings.schedule)
        updates_close(&twin->updates);
    free(twin->begun);
    free(twin->part_losses);
    free(twin);
}

static float *tied_gradients(const struct twin *twin, size_t l, size_t owner)
{
    const struct twin_share *share = share_of(twin, l, owner);
    return share ? share->gradients : twin->own[owner].gradients;
}

// What is computed: a micro-batch, or a part of its sequences.
struct piece {
    uint64_t step;
    uint32_t micro_batch, split, splits;
};

static struct weir_pass pass_of(const struct twin *twin, size_t l, uint64_t version, const struct piece *piece)
{
    const struct twin_layer *own = &twin->own[l];
    const struct weir_layer *tied_to = twin->layers[l].tied;
    const size_t tied = tied_to ? (size_t)(tied_to - twin->layers) : 0;
    struct weir_pass pass = {
        .queue = twin->queue,
        .tied_parameters = tied_to ? weights_of(twin, tied, version) : NULL,
        .tied_gradients = tied_to ? tied_gradients(twin, l, tied) : NULL,
        .step = piece->step,
        .micro_batch = piece->micro_batch,
        .split = piece->split,
        .splits = piece->splits,
        .parameters = weights_of(twin, l, version),
        .loss_scale = twin->scaling.scale,
        .saved = of_part(twin, own->saved, twin->layers[l].saved_bytes, piece->split),
        .carried = piece->splits > 1 ? own->carried : NULL,
        .carried_gradient = piece->splits > 1 ? own->carried_gradient : NULL,
        .workspace = twin->workspace,
    };
    for (size_t i = 0; i < layer_input_count(twin->layers, l); i++) {
        const size_t from = layer_input(twin->layers, l, i);
        pass.inputs[i] = of_part(twin, twin->own[from].output, twin->layers[from].output_bytes, piece->split);
    }
    pass.input = pass.inputs[0];
    return pass;
}

static bool forward(struct twin *twin, size_t l, uint64_t version, const struct piece *piece, float *loss,
                    struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct weir_pass pass = pass_of(twin, l, version, piece);
    pass.output = of_part(twin, twin->own[l].output, layer->output_bytes, piece->split);
    pass.loss = loss;
    struct weir_error trouble = { 0 };
    return told(layer, layer->forward(layer->self, &pass, &trouble), &trouble, error);
}

// Each in its place, or, where a later layer has been there, beside it.
static void put_input_gradients(struct twin *twin, size_t l, struct weir_pass *pass)
{
    for (size_t i = 0; i < layer_input_count(twin->layers, l); i++) {
        const struct twin_layer *from = &twin->own[layer_input(twin->layers, l, i)];
        pass->input_gradients[i] = from->has_gradient ? twin->parts[i] : from->output_gradient;
    }
    pass->input_gradient = pass->input_gradients[0];
}

static void add_input_gradients(struct twin *twin, size_t l, uint32_t splits)
{
    for (size_t i = 0; i < layer_input_count(twin->layers, l); i++) {
        const size_t from = layer_input(twin->layers, l, i);
        struct twin_layer *own = &twin->own[from];
        if (own->has_gradient)
            kernel_add(twin->queue, own->output_gradient, own->output_gradient, twin->parts[i],
                       twin->layers[from].output_bytes / splits / number_bytes(twin));
        own->has_gradient = true;
    }
}

// Adds the gradient of its parameters where that is wanted.
static bool backward(struct twin *twin, size_t l, uint64_t version, const struct piece *piece, bool adds,
                     struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    const struct twin_layer *own = &twin->own[l];
    struct weir_pass pass = pass_of(twin, l, version, piece);
    pass.gradients = own->gradients;
    pass.held = own->held;
    put_input_gradients(twin, l, &pass);
    if (l + 1 < twin->layer_count) {
        pass.output_gradient = own->output_gradient;
        if (layer->held_for_weight_bytes > 0) {
            queue_copy(twin->queue, own->held, own->output_gradient, layer->output_bytes / piece->splits);
            pass.output_gradient = own->held;
        }
    }
    struct weir_error trouble = { 0 };
    const bool good = layer->backward_input(layer->self, &pass, &trouble)
                   && (!adds || layer->backward_weight(layer->self, &pass, &trouble));
    add_input_gradients(twin, l, piece->splits);
    return told(layer, good, &trouble, error);
}

// --- updates -------------------------------------------------------------------------

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

// Part by part.
static bool go_forward(struct twin *twin, uint64_t step, uint32_t micro_batch, struct error *error)
{
    struct piece piece = { step, micro_batch, 0, twin->splits };
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

// The gradients of one micro-batch, for the parameters of some stages.
static bool add_gradients(struct twin *twin, uint64_t step, uint32_t micro_batch, const bool *stages,
                          struct error *error)
{
    struct piece piece = { step, micro_batch, twin->splits, twin->splits };
    bool good = go_forward(twin, step, micro_batch, error);
    while (good && piece.split-- > 0)
        good = backward_all(twin, &piece, stages, error);
    return good;
}

// A sum of gradients, onto that of those before it; behind the last, the
// gradients are what the update reads: the whole sum, times a factor.
struct brought {
    uint32_t sum, sums;
    float factor;
};

static void add_brought(struct twin *twin, const struct brought *by, float *gradients, float *sum, uint64_t count)
{
    const uint64_t bytes = count * sizeof *gradients;
    if (count == 0)
        return;
    if (by->sums > 1 && by->sum == 0)
        queue_copy(twin->queue, sum, gradients, bytes);
    else if (by->sums > 1)
        kernel_add_floats(twin->queue, sum, sum, gradients, count);
    if (by->sum + 1 == by->sums)
        kernel_scale(twin->queue, gradients, by->sums > 1 ? sum : gradients, by->factor, count);
    else
        queue_zero(twin->queue, gradients, bytes);
}

// --- signs of what copies make of their sums -------------------------------------------

// Whether the copies of the layer's stage send some for its next update.
static bool sends_signs(const struct twin *twin, size_t l)
{
    return twin->signs && twin->signs[twin->own[l].stage].copies > 1
        && optimizer_is_frozen(&twin->settings.optimizer, twin->own[l].newest + 1);
}

// Where a layer's numbers are in its flat stage.
static uint64_t first_of(const struct twin *twin, size_t layer)
{
    uint64_t first = 0;
    for (size_t l = 0; l < layer; l++)
        first += twin->own[l].stage == twin->own[layer].stage ? number_count(twin, l) : 0;
    return first;
}

// A copy's sum is its own until all of them meet.
static void put_sum_aside(struct twin *twin, size_t l, uint32_t copy)
{
    const struct twin_signs *signs = &twin->signs[twin->own[l].stage];
    const uint64_t bytes = number_count(twin, l) * sizeof(float);
    if (bytes == 0)
        return;
    queue_copy(twin->queue, signs->gradients + copy * signs->count + first_of(twin, l), twin->own[l].gradients, bytes);
    queue_zero(twin->queue, twin->own[l].gradients, bytes);
}

static void copy_moments(struct twin *twin, size_t l, bool is_back)
{
    const struct twin_signs *signs = &twin->signs[twin->own[l].stage];
    const uint64_t count = number_count(twin, l), first = first_of(twin, l), bytes = count * sizeof(float);
    float *state = twin->own[l].state;
    if (bytes > 0 && is_back) {
        queue_copy(twin->queue, state, signs->momentum + first, bytes);
    } else if (bytes > 0) {
        queue_copy(twin->queue, signs->momentum + first, state, bytes);
        queue_copy(twin->queue, signs->seconds + first, state + count, bytes);
    }
}

// Of the stages whose copies do.
static void meet_by_signs(struct twin *twin, const bool *stages)
{
    for (uint32_t s = 0; s < twin->settings.schedule->stages; s++) {
        bool do_meet = false;
        for (size_t l = 0; l < twin->layer_count; l++)
            do_meet |= stages[s] && twin->own[l].stage == s && sends_signs(twin, l);
        for (size_t l = 0; do_meet && l < twin->layer_count; l++)
            if (twin->own[l].stage == s)
                copy_moments(twin, l, false);
        if (do_meet)
            twin_signs_meet(&twin->signs[s], twin->settings.optimizer.beta1);
        for (size_t l = 0; do_meet && l < twin->layer_count; l++)
            if (twin->own[l].stage == s)
                copy_moments(twin, l, true);
    }
}

static void add_sum(struct twin *twin, const bool *stages, const struct brought *by)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (stages[twin->own[l].stage] && sends_signs(twin, l))
            put_sum_aside(twin, l, by->sum);
        else if (stages[twin->own[l].stage])
            add_brought(twin, by, twin->own[l].gradients, twin->own[l].sum, number_count(twin, l));
    for (size_t i = 0; i < twin->share_count; i++)
        if (stages[twin->shares[i].stage])
            add_brought(twin, by, twin->shares[i].gradients, twin->shares[i].sum,
                        number_count(twin, twin->shares[i].owner));
}

// Where the gradients of a share are added to: the owner's; or, in front of the owner's stage, the next one's.
static float *sum_behind(const struct twin *twin, size_t share)
{
    const struct twin_share *own = &twin->shares[share];
    const struct twin_layer *owner = &twin->own[own->owner];
    for (size_t i = share + 1; own->stage < owner->stage && i < twin->share_count; i++)
        if (twin->shares[i].owner == own->owner && twin->shares[i].stage < owner->stage)
            return twin->shares[i].gradients;
    return owner->gradients;
}

// Stage by stage.
static void add_shares(struct twin *twin)
{
    for (size_t i = 0; i < twin->share_count; i++) {
        const struct twin_share *share = &twin->shares[i];
        float *sum = sum_behind(twin, i);
        const uint64_t count = number_count(twin, share->owner);
        kernel_add_floats(twin->queue, sum, sum, share->gradients, count);
        queue_zero(twin->queue, share->gradients, count * sizeof *sum);
    }
}

// Back to what they are of a loss that is not scaled.
static void unscale(struct twin *twin)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (twin->layers[l].parameter_bytes > 0)
            kernel_scale(twin->queue, twin->own[l].gradients, twin->own[l].gradients, 1 / twin->scaling.scale,
                         number_count(twin, l));
}

// A norm for each member that has a shard of the layer.
static void measure_layer(struct twin *twin, size_t l)
{
    const struct split_norms *split = twin->settings.split;
    const uint32_t shards = split ? split->layers[l].members : 1;
    const uint64_t count = number_count(twin, l) / shards;
    for (uint32_t m = 0; m < shards; m++) {
        const struct norm_range measured = split_measured(split, (uint32_t)l, m, count);
        if (measured.count > 0)
            kernel_norm(twin->queue, &twin->norms[l * members_of(twin) + m],
                        twin->own[l].gradients + m * count + measured.first, measured.count);
    }
}

static void measure(struct twin *twin)
{
    queue_zero(twin->queue, twin->norms, norm_count(twin) * sizeof *twin->norms);
    for (size_t l = 0; l < twin->layer_count; l++)
        if (twin->layers[l].parameter_bytes > 0)
            measure_layer(twin, l);
}

// Clips the gradients of all layers by their norm.
static void clip(struct twin *twin)
{
    const struct clip clip = { twin->norms, norm_count(twin), twin->settings.optimizer.clip };
    for (size_t l = 0; l < twin->layer_count; l++)
        if (twin->layers[l].parameter_bytes > 0)
            kernel_clip(twin->queue, &clip, twin->own[l].gradients, number_count(twin, l));
}

// Whether the gradients that were scaled are all numbers; of such that were not, nobody asks.
static bool judge(struct twin *twin, bool *makes, struct error *error)
{
    *makes = true;
    if (twin->scaling.scale <= 0)
        return true;
    float *host = malloc(norm_count(twin) * sizeof *host);
    if (!host)
        return error_no_memory(error, "the norms of gradients");
    queue_download(twin->queue, host, twin->norms, norm_count(twin) * sizeof *host);
    const bool good = queue_wait(twin->queue, error);
    *makes = good && loss_scaling_judge(&twin->scaling, clip_norm(host, norm_count(twin)));
    free(host);
    return good;
}

static void forget_gradients(struct twin *twin)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        queue_zero(twin->queue, twin->own[l].gradients, number_count(twin, l) * sizeof(float));
}

// The next version of a layer's weights, and the gradients to zero.
static void optimize(struct twin *twin, size_t l)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct twin_layer *own = &twin->own[l];
    struct exempt exempt[16];
    assert(layer->undecayed_count <= 16);
    for (size_t i = 0; i < layer->undecayed_count; i++)
        exempt[i] = (struct exempt){ layer->undecayed[i].first / number_bytes(twin),
                                     layer->undecayed[i].end / number_bytes(twin) };
    const struct stage_part part = { .layer = (uint32_t)l, .end = number_count(twin, l),
                                     .numbers = layer->parameter_bytes / number_bytes(twin), .tensors = layer->tensors,
                                     .tensor_count = layer->tensors ? layer->tensor_count : 0 };
    const struct optimizer_buffers buffers = {
        .next = weights_of(twin, l, own->newest + 1),
        .weights = weights_of(twin, l, own->newest),
        .gradients = own->gradients,
        .state = own->state,
        .count = number_count(twin, l),
        .exempt = exempt,
        .exempt_count = layer->undecayed_count,
        .parts = &part,
        .part_count = 1,
        .has_momentum = sends_signs(twin, l),
    };
    own->newest++;
    if (layer->parameter_bytes == 0)
        return;
    optimizer_update(&twin->settings.optimizer, own->newest, twin->queue, &buffers);
    queue_zero(twin->queue, own->gradients, buffers.count * sizeof(float));
}

// Without a flush an update is the mean of the micro-batches
// there are, whose losses are shares of a whole update of one copy.
static float factor_of(const struct twin *twin, const struct update_part *parts, uint32_t sums)
{
    size_t brought = 0;
    for (uint32_t sum = 0; sum < sums; sum++)
        brought += parts[sum].count;
    if (twin->settings.schedule->weights == WEIGHTS_FLUSH || brought == 0)
        return 1.0f;
    return (float)schedule_samples(twin->settings.schedule) / (float)brought;
}

// All that the update reads.
static bool gather_update(struct twin *twin, const struct update_step *made, uint64_t step, struct error *error)
{
    const struct stage_updates *stage = &twin->updates.stages[made->first_stage];
    const struct update_part *parts = &stage->parts[(size_t)made->update * stage->sums];
    struct brought brought = { .sums = stage->sums, .factor = factor_of(twin, parts, stage->sums) };
    for (; brought.sum < stage->sums; brought.sum++) {
        const struct update_part *part = &parts[brought.sum];
        for (size_t i = 0; i < part->count; i++)
            if (!add_gradients(twin, step, part->micro_batches[i], made->stages, error))
                return false;
        add_sum(twin, made->stages, &brought);
    }
    if (twin->signs)
        meet_by_signs(twin, made->stages);
    return true;
}

static void make_update(struct twin *twin, const struct update_step *made)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (made->stages[twin->own[l].stage])
            optimize(twin, l);
}

// Tied layers on different stages, clipping and a loss that is scaled are there under a flush only, where a pass is one
// update of all, or none.
static bool make_updates_at_once(struct twin *twin, uint64_t step, struct error *error)
{
    const struct updates *updates = &twin->updates;
    for (size_t i = 0; i < updates->step_count; i++)
        if (!gather_update(twin, &updates->steps[i], step, error))
            return false;
    add_shares(twin);
    if (twin->scaling.scale > 0)
        unscale(twin);
    if (twin->norms)
        measure(twin);
    bool makes;
    if (!judge(twin, &makes, error))
        return false;
    if (!makes)
        forget_gradients(twin);
    else if (twin->settings.optimizer.clip > 0)
        clip(twin);
    for (size_t i = 0; makes && i < updates->step_count; i++)
        make_update(twin, &updates->steps[i]);
    return true;
}

static bool make_updates(struct twin *twin, uint64_t step, struct error *error)
{
    const struct updates *updates = &twin->updates;
    for (size_t i = 0; i < updates->step_count; i++) {
        if (!gather_update(twin, &updates->steps[i], step, error))
            return false;
        make_update(twin, &updates->steps[i]);
    }
    return true;
}

// In the order of the parts.
static void add_up_losses(const struct twin *twin, float *losses)
{
    for (uint32_t m = 0; m < twin->settings.schedule->micro_batches; m++) {
        losses[m] = twin->part_losses[(size_t)m * twin->splits];
        for (uint32_t split = 1; split < twin->splits; split++)
            losses[m] += twin->part_losses[(size_t)m * twin->splits + split];
    }
}

bool twin_step(struct twin *twin, uint64_t step, float *losses, struct error *error)
{
    const struct updates *updates = &twin->updates;
    bool good = true;
    for (size_t l = 0; l < twin->layer_count; l++)
        twin->begun[twin->own[l].stage] = twin->own[l].newest;
    if (updates->step_count > 0)
        good = (twin->share_count > 0 || twin->norms ? make_updates_at_once : make_updates)(twin, step, error);
    // Without an update there is still what the forwards find.
    for (uint32_t i = 0; good && updates->step_count == 0 && i < updates->schedule->micro_batches; i++)
        good = go_forward(twin, step, i, error);
    good = good && queue_wait(twin->queue, error);
    if (good && losses)
        add_up_losses(twin, losses);
    return good;
}

bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error)
{
    const struct piece whole = { step, micro_batch, 0, 1 };
    for (size_t l = 0; l < twin->layer_count; l++)
        if (!forward(twin, l, twin->own[l].newest, &whole, loss, error))
            return false;
    return queue_wait(twin->queue, error);
}

const void *twin_parameters(const struct twin *twin, size_t layer)
{
    return weights_of(twin, layer, twin->own[layer].newest);
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
