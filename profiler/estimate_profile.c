#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "profiler/estimate/estimated.h"

static uint64_t whole_ns(const struct phase_estimate *phase)
{
    return (uint64_t)llround(fmin(phase_estimate_ns(phase), (double)JSON_MAX + 1));
}

// How many of a layer's parameters are this device's share, if all devices with the same parameters hold them once.
static uint64_t own_parameters(const struct estimate *estimate, const struct layer_estimate *layer)
{
    const struct estimate_request *request = &estimate->request;
    uint64_t all = request->context * request->data;
    uint64_t alike = all * request->tensor > request->expert ? all * request->tensor / request->expert : 1;
    if (request->within) {
        all = request->within < all ? request->within : all;
        alike = request->within < alike ? request->within : alike;
    }
    const uint64_t plain = layer->parameters - layer->expert_parameters, experts = layer->expert_parameters;
    return plain / all + (plain % all > 0) + experts / alike + (experts % alike > 0);
}

// Sharded weights are whole while their layer runs, and so are its gradients.
static void share_states(const struct estimate *estimate, const struct layer_estimate *made,
                         struct profile_layer *layer)
{
    const uint64_t number = profile_dtype_bytes(estimate->request.dtype), whole = layer->parameter_bytes;
    const uint64_t own_bytes = own_parameters(estimate, made) * number;
    if (estimate->request.shard == ESTIMATE_SHARD_WEIGHTS) {
        layer->parameter_bytes = own_bytes;
        layer->workspace_bytes += whole;
        layer->backward_workspace_bytes += 2 * whole;
    } else if (estimate->request.shard != ESTIMATE_SHARD_NONE) {
        layer->states_elsewhere_bytes = whole - own_bytes;
    }
}

void estimate_numbers(const struct estimate *estimate, enum layer_part part, struct profile_layer *layer)
{
    const struct layer_estimate *made = &estimate->parts[part];
    layer->forward_ns = whole_ns(&made->phases[ESTIMATE_F]);
    layer->backward_input_ns = whole_ns(&made->phases[ESTIMATE_I]);
    layer->backward_weight_ns = whole_ns(&made->phases[ESTIMATE_W]);
    layer->backward_ns = layer->backward_input_ns + layer->backward_weight_ns;
    layer->parameter_bytes = made->parameters * profile_dtype_bytes(estimate->request.dtype);
    layer->output_bytes = made->output_bytes;
    layer->saved_bytes = made->saved_bytes;
    layer->input_kept = made->input_kept;
    layer->held_for_weight_bytes = made->held_for_weight_bytes;
    layer->workspace_bytes = made->workspace_bytes;
    layer->backward_workspace_bytes = made->backward_workspace_bytes;
    layer->flops = made->flops;
    share_states(estimate, made, layer);
}

// How long published runs took compared with the prediction, in thousandths. Nine of ten runs are within these limits
// (bench/peers/compare_estimates.py; docs/estimate.md).
static struct spread validated_spread(const struct estimate *estimate)
{
    if (estimate->model.experts)
        return (struct spread){ 896, 1000, 1877 };
    if (estimate->request.shard == ESTIMATE_SHARD_WEIGHTS)
        return (struct spread){ 881, 1000, 1320 };
    const char *products = estimate->request.products;
    const bool is_narrow = products && strcmp(products, estimate->request.dtype) != 0;
    return is_narrow ? (struct spread){ 902, 1000, 1102 } : (struct spread){ 903, 1000, 1190 };
}

static void set_spread(const struct estimate *estimate, struct profile_layer *layer)
{
    const struct spread spread = validated_spread(estimate);
    const uint64_t times[PHASES] = {
        [PHASE_FORWARD] = layer->forward_ns,
        [PHASE_BACKWARD_INPUT] = layer->backward_input_ns,
        [PHASE_BACKWARD_WEIGHT] = layer->backward_weight_ns,
    };
    for (int phase = 0; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
        const double part = (double)times[phase] / 1000;
        layer->has_spread[phase] = true;
        layer->spread[phase] = (struct spread){ (uint64_t)(part * (double)spread.min_ns), times[phase],
                                                (uint64_t)ceil(part * (double)spread.p95_ns) };
    }
}

static bool set_layer(const struct estimate *estimate, size_t i, struct profile_layer *layer)
{
    const enum layer_part part = estimate_part(&estimate->model, i);
    const char *kind = estimate_part_kind(&estimate->model, part);
    char block[40] = "";
    if (part != PART_EMBEDDING && part != PART_CROSSING && part != PART_PREDICTED && part != PART_HEAD)
        snprintf(block, sizeof block, "block%" PRIu64 ".", estimate_block(&estimate->model, i));
    char name[64];
    snprintf(name, sizeof name, "%s%s", block, kind);
    const size_t predicted = (size_t)estimate->model.predicted;
    if (part == PART_PREDICTED && predicted > 1)  // no number, since blocks have one
        snprintf(name, sizeof name, "mtp.%c", (int)('a' + i + 1 + predicted - estimate_layers(&estimate->model)));
    layer->name = strdup(name);
    layer->kind = strdup(kind);
    estimate_numbers(estimate, part, layer);
    set_spread(estimate, layer);
    return layer->name && layer->kind;
}

static bool set_layers(const struct estimate *estimate, struct profile *profile)
{
    bool good = true;
    for (size_t i = 0; i < profile->layer_count && good; i++)
        good = set_layer(estimate, i, &profile->layers[i]);
    return good;
}

static bool forbid_cuts(const struct estimate *estimate, struct profile *profile)
{
    const uint32_t blocks = (uint32_t)estimate->model.layers;
    profile->no_cut_after = calloc(blocks, sizeof profile->no_cut_after[0]);
    if (!profile->no_cut_after)
        return false;
    for (uint32_t i = 1; i + 1 < profile->layer_count; i++)
        if (estimate_block(&estimate->model, i) == estimate_block(&estimate->model, i + 1)
            && i + 1 + estimate->model.predicted + 1 < profile->layer_count)
            profile->no_cut_after[profile->no_cut_count++] = i;
    return true;
}

// Layers that predict tokens further on read the embedding's table, and so does a decoder behind an encoder. A head
// does if it has no table of its own.
static bool reads_table(const struct transformer *model, size_t i)
{
    const enum layer_part part = estimate_part(model, i);
    return part == PART_CROSSING || part == PART_PREDICTED || (part == PART_HEAD && model->is_tied);
}

static bool lend_table(const struct estimate *estimate, struct profile *profile)
{
    const struct transformer *model = &estimate->model;
    const size_t most = (size_t)model->predicted + 2;
    if (model->predicted == 0 && model->encoder_layers == 0 && !model->is_tied)
        return true;
    profile->tied = calloc(most, sizeof profile->tied[0]);
    profile->one_owner = calloc(most, sizeof profile->one_owner[0]);
    if (!profile->tied || !profile->one_owner)
        return false;
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        if (!reads_table(model, l))
            continue;
        profile->tied[profile->tied_count++] = (struct edge){ 0, l };
        profile->one_owner[profile->one_owner_count++] = (struct edge){ 0, l };
    }
    return true;
}

static bool set_source(const struct estimate *estimate, struct profile *profile)
{
    struct profile_source *source = &profile->source;
    for (size_t i = 0; i < profile->layer_count; i++)
        source->sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    source->how = PROFILE_ESTIMATED;
    profile->estimated = estimated_of(estimate);
    if (!profile->estimated)
        return false;
    // Each word attends to those before it.
    const bool sees_all = estimate->model.is_bidirectional || estimate->model.encoder_layers > 0;
    profile->sequences = sees_all ? SEQUENCES_NONE : SEQUENCES_SOME;
    source->backward_split_measured = false;
    free(source->device);
    source->device = strdup(estimate->device.name);
    return source->device && lend_table(estimate, profile);
}

struct profile *estimate_profile(const struct estimate *estimate, struct error *error)
{
    const struct estimate_request *request = &estimate->request;
    const size_t layers = estimate_layers(&estimate->model);
    struct profile *profile =
        profile_create(estimate->model.name, request->dtype, request->micro_batch, layers, error);
    if (!profile)
        return NULL;
    const char *of_what;
    if (!set_layers(estimate, profile) || !set_source(estimate, profile)
        || ((request->whole_blocks || estimate->model.is_parallel) && !forbid_cuts(estimate, profile)))
        error_no_memory(error, "a profile");
    else if (profile_overflow_at(profile, &of_what) < layers)
        error_set(error, "the model's %s do not fit in 2^53", of_what);
    else if (profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}
