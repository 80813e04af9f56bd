#include "partitioner/cost/variant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

static const struct profile_variant *find(const struct profile_layer *layer, const char *name)
{
    for (size_t i = 0; name && i < layer->variant_count; i++)
        if (strcmp(layer->variants[i].layer.name, name) == 0)
            return &layer->variants[i];
    return NULL;
}

static uint32_t devices_of(const struct profile_variant *variant)
{
    return variant->devices ? variant->devices : 1;
}

uint32_t variant_devices(const struct profile *profile, const char *name)
{
    for (size_t l = 0; name && l < profile->layer_count; l++) {
        const struct profile_variant *variant = find(&profile->layers[l], name);
        if (variant)
            return devices_of(variant);
    }
    return 1;
}

static bool shares_output(const struct profile *profile, const char *name)
{
    bool shares = false;
    for (size_t l = 0; name && l < profile->layer_count; l++) {
        const struct profile_variant *variant = find(&profile->layers[l], name);
        shares |= variant && variant->shares_output;
    }
    return shares;
}

bool variants_meet(const struct profile *profile, const char *one, const char *other)
{
    const bool are_same = one == other || (one && other && strcmp(one, other) == 0);
    return are_same || (!shares_output(profile, one) && !shares_output(profile, other));
}

bool variants_tie(const struct profile *profile, const char *first, const char *last)
{
    for (size_t i = 0; i < profile->tied_count; i++)
        if (profile->tied[i].from == 0 && profile->tied[i].to + 1 == profile->layer_count)
            return variant_devices(profile, first) == variant_devices(profile, last);
    return true;
}

static void take_variant(struct profile_layer *layer, const struct profile_variant *variant)
{
    const struct profile_layer *from = &variant->layer;
    layer->forward_ns = from->forward_ns + variant->communication_ns;
    layer->has_recompute = from->has_recompute;
    layer->recompute_ns = from->recompute_ns + variant->communication_ns;
    layer->backward_ns = from->backward_ns + variant->communication_ns;
    layer->backward_input_ns = from->backward_input_ns + variant->communication_ns;
    layer->backward_weight_ns = from->backward_weight_ns;
    layer->update_ns = variant->update_ns;
    layer->parameter_bytes = from->parameter_bytes;
    layer->states_elsewhere_bytes = from->states_elsewhere_bytes;
    if (variant->shares_output)
        layer->output_bytes = from->output_bytes;
    layer->saved_bytes = from->saved_bytes;
    layer->shared_by_parts_bytes = from->shared_by_parts_bytes;
    layer->input_kept = from->input_kept;
    layer->held_for_weight_bytes = from->held_for_weight_bytes;
    layer->workspace_bytes = from->workspace_bytes;
    layer->backward_workspace_bytes = from->backward_workspace_bytes;
    layer->state_bytes = from->state_bytes;
    layer->statistics_bytes = from->statistics_bytes;
    layer->flops = from->flops;
    if (from->touched_rows == 0)
        return;
    layer->touched_rows = from->touched_rows;
    layer->row_bytes = from->row_bytes;
    layer->summed_rows = from->summed_rows;
    layer->shapes = from->shapes;
    layer->shape_count = from->shape_count;
}

static bool take_variants(struct profile *profile, const char *name, struct error *error)
{
    const uint32_t devices = variant_devices(profile, name);
    const bool shares = shares_output(profile, name);
    bool found = name == NULL;
    for (size_t l = 0; l < profile->layer_count; l++) {
        const struct profile_variant *variant = find(&profile->layers[l], name);
        if (variant && devices_of(variant) != devices)
            return error_set(error,
                             "layer %zu runs \"%.60s\" on %" PRIu32 " devices, a layer in front of it on %" PRIu32, l,
                             name, devices_of(variant), devices);
        if (shares && !(variant && variant->shares_output))
            return error_set(error, "layer %zu has no variant \"%.60s\" of which each device has a share of the"
                             " output, as others have: all layers need one", l, name);
        if (name)  // as a layer that it does not say more of: the devices of a group add up whole gradients
            profile->layers[l].touched_rows = profile->layers[l].summed_rows = 0;
        if (variant)
            take_variant(&profile->layers[l], variant);
        found |= variant != NULL;
    }
    if (!found)
        return error_set(error, "no layer of %.60s has a variant \"%.60s\"", profile->model, name);
    const char *what;
    const size_t overflow = profile_overflow_at(profile, &what);
    return overflow == profile->layer_count
        || error_set(error, "with \"%.60s\" the %s of the layers up to %zu add up to more than 2^53 - 1", name, what,
                     overflow);
}

struct profile *variant_of(const struct profile *profile, const char *name, struct error *error)
{
    struct profile *variant = malloc(sizeof *variant);
    struct profile_layer *layers = array_copy(profile->layers, profile->layer_count, sizeof layers[0]);
    if (!variant || !layers) {
        free(variant);
        free(layers);
        error_no_memory(error, "the variants of a model");
        return NULL;
    }
    *variant = *profile;
    variant->layers = layers;
    if (take_variants(variant, name, error))
        return variant;
    variant_free(variant);
    return NULL;
}

static bool reads_only_before(const struct profile *profile, uint32_t layer, uint32_t first)
{
    if (profile->is_chain)
        return layer == first;
    for (size_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].to == layer && profile->edges[i].from >= first)
            return false;
    return true;
}

bool profile_layer_reads_rows(const struct profile_layer *layer)
{
    return layer->kind && (strcmp(layer->kind, "products") == 0 || strcmp(layer->kind, "combine") == 0);
}

bool profile_layer_has_experts(const struct profile_layer *layer)
{
    return layer->kind && (strcmp(layer->kind, "experts") == 0 || strcmp(layer->kind, "products") == 0);
}

bool profile_layer_reads_exchanged(const struct profile_layer *layer)
{
    return layer->kind && (strcmp(layer->kind, "exchange") == 0 || profile_layer_reads_rows(layer));
}

uint64_t variant_exchange(struct profile *view, const char *name, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;
    for (uint32_t l = first; first > 0 && l < end; l++) {
        struct profile_layer *layer = &view->layers[l];
        const struct profile_variant *variant = find(layer, name);
        if (!variant || !profile_layer_reads_exchanged(layer) || !reads_only_before(view, l, first))
            continue;
        layer->forward_ns = variant->layer.forward_ns;
        layer->recompute_ns = variant->layer.recompute_ns;
        layer->backward_ns = variant->layer.backward_ns;
        layer->backward_input_ns = variant->layer.backward_input_ns;
        sum += variant->communication_ns;
    }
    return sum;
}

void variant_free(struct profile *variant)
{
    if (variant)
        free(variant->layers);
    free(variant);
}

static bool is_among(const char *name, const char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

size_t variant_names(const struct profile *profile, const char **names, size_t most)
{
    size_t count = 0;
    for (size_t l = 0; l < profile->layer_count; l++) {
        for (size_t i = 0; i < profile->layers[l].variant_count && count < most; i++) {
            const char *name = profile->layers[l].variants[i].layer.name;
            if (!is_among(name, names, count))
                names[count++] = name;
        }
    }
    return count;
}
