#include "common/json.h"
#include "profiler/estimate/estimated.h"
#include "profiler/profile.h"
#include "profiler/profile_transfers.h"
#include "profiler/profile_words.h"

const char *const profile_how_words[] = { "measured", "estimated", "imported", NULL };
const char *const input_kept_words[] = { "none", "weight", "both", NULL };
const char *const split_words[] = { "assumed", "measured", NULL };
const char *const phase_words[PHASES] = { "forward", "backward_input", "backward_weight", "backward", "recompute" };

static void write_source(const struct profile_source *source, struct json_writer *writer)
{
    json_begin_object(writer, "source", JSON_LINES);
    json_put_string(writer, "how", profile_how_words[source->how]);
    json_put_string(writer, "device", source->device);
    json_put_string(writer, "clock", source->clock);
    json_put_u64(writer, "repeats", source->repeats);
    json_put_u64(writer, "sum_ns", source->sum_ns);
    json_put_u64(writer, "whole_ns", source->whole_ns);
    json_put_string(writer, "backward_split", split_words[source->backward_split_measured]);
    json_close(writer);
}

static void write_numbers(const struct profile_layer *layer, struct json_writer *writer)
{
    json_put_u64(writer, "forward_ns", layer->forward_ns);
    json_put_u64(writer, "backward_input_ns", layer->backward_input_ns);
    json_put_u64(writer, "backward_weight_ns", layer->backward_weight_ns);
    if (layer->has_backward)
        json_put_u64(writer, "backward_ns", layer->backward_ns);
    if (layer->has_recompute)
        json_put_u64(writer, "recompute_ns", layer->recompute_ns);
    json_put_u64(writer, "parameter_bytes", layer->parameter_bytes);
    if (layer->states_elsewhere_bytes)
        json_put_u64(writer, "states_elsewhere_bytes", layer->states_elsewhere_bytes);
    json_put_u64(writer, "output_bytes", layer->output_bytes);
    json_put_u64(writer, "saved_bytes", layer->saved_bytes);
    if (layer->carried_bytes)
        json_put_u64(writer, "carried_bytes", layer->carried_bytes);
    json_put_string(writer, "input_kept", input_kept_words[layer->input_kept]);
    json_put_u64(writer, "held_for_weight_bytes", layer->held_for_weight_bytes);
    json_put_u64(writer, "workspace_bytes", layer->workspace_bytes);
    json_put_u64(writer, "backward_workspace_bytes", layer->backward_workspace_bytes);
    json_put_u64(writer, "flops", layer->flops);
    profile_transfers_write(layer, writer);
}

static void write_spread(const struct profile_layer *layer, struct json_writer *writer)
{
    bool any = false;
    for (size_t i = 0; i < PHASES; i++)
        any |= layer->has_spread[i];
    if (!any)
        return;
    json_begin_object(writer, "spread", JSON_LINES);
    for (size_t i = 0; i < PHASES; i++) {
        if (!layer->has_spread[i])
            continue;
        json_begin_array(writer, phase_words[i], JSON_INLINE);
        json_put_u64(writer, NULL, layer->spread[i].min_ns);
        json_put_u64(writer, NULL, layer->spread[i].median_ns);
        json_put_u64(writer, NULL, layer->spread[i].p95_ns);
        json_close(writer);
    }
    json_close(writer);
}

static void write_variants(const struct profile_layer *layer, struct json_writer *writer)
{
    if (layer->variant_count == 0)
        return;
    json_begin_array(writer, "variants", JSON_LINES);
    for (size_t i = 0; i < layer->variant_count; i++) {
        json_begin_object(writer, NULL, JSON_LINES);
        json_put_string(writer, "name", layer->variants[i].layer.name);
        write_numbers(&layer->variants[i].layer, writer);
        json_put_u64(writer, "communication_ns", layer->variants[i].communication_ns);
        if (layer->variants[i].devices > 1)
            json_put_u64(writer, "devices", layer->variants[i].devices);
        if (layer->variants[i].shares_output)
            json_put_bool(writer, "shares_output", true);
        json_close(writer);
    }
    json_close(writer);
}

static void write_shapes(const struct profile_layer *layer, struct json_writer *writer)
{
    if (layer->shape_count == 0)
        return;
    json_begin_array(writer, "shapes", JSON_INLINE);
    for (size_t i = 0; i < layer->shape_count; i++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        json_put_u64(writer, NULL, layer->shapes[i].rows);
        json_put_u64(writer, NULL, layer->shapes[i].columns);
        json_close(writer);
    }
    json_close(writer);
}

static void write_layer(const struct profile_layer *layer, struct json_writer *writer)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "name", layer->name);
    json_put_string(writer, "kind", layer->kind);
    write_numbers(layer, writer);
    write_shapes(layer, writer);
    write_spread(layer, writer);
    write_variants(layer, writer);
    json_close(writer);
}

static void write_pairs(const char *key, const struct edge *pairs, size_t count, struct json_writer *writer)
{
    json_begin_array(writer, key, count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < count; i++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        json_put_u64(writer, NULL, pairs[i].from);
        json_put_u64(writer, NULL, pairs[i].to);
        json_close(writer);
    }
    json_close(writer);
}

static bool has_recompute(const struct profile_layer *layer)
{
    bool has = layer->has_recompute;
    for (size_t v = 0; v < layer->variant_count; v++)
        has |= layer->variants[v].layer.has_recompute;
    return has;
}

static bool has_carried(const struct profile_layer *layer)
{
    bool has = layer->carried_bytes > 0;
    for (size_t v = 0; v < layer->variant_count; v++)
        has |= layer->variants[v].layer.carried_bytes > 0;
    return has;
}

static bool has_states_elsewhere(const struct profile_layer *layer)
{
    bool has = layer->states_elsewhere_bytes > 0;
    for (size_t v = 0; v < layer->variant_count; v++)
        has |= layer->variants[v].layer.states_elsewhere_bytes > 0;
    return has;
}

static bool has_shared_output(const struct profile_layer *layer)
{
    bool has = false;
    for (size_t v = 0; v < layer->variant_count; v++)
        has |= layer->variants[v].shares_output;
    return has;
}

// The lowest version that can hold it.
static uint64_t profile_version(const struct profile *profile)
{
    if (profile->estimated)
        return profile->estimated->model.predicted > 0 ? 10 : 9;
    if (profile->sequences != SEQUENCES_UNSAID)
        return 8;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (has_shared_output(&profile->layers[i]))
            return 7;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (has_states_elsewhere(&profile->layers[i]))
            return 6;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (has_carried(&profile->layers[i]))
            return 5;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (has_recompute(&profile->layers[i]))
            return 4;
    if (profile->lent_count)
        return 3;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        if (layer->shape_count || layer->receive_count || layer->send_count)
            return 2;
        for (size_t v = 0; v < layer->variant_count; v++)
            if (layer->variants[v].devices > 1 || layer->variants[v].layer.receive_count
                || layer->variants[v].layer.send_count)
                return 2;
    }
    return 1;
}

void profile_write(const struct profile *profile, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.profile");
    json_put_u64(&writer, "version", profile_version(profile));
    json_put_string(&writer, "model", profile->model);
    json_put_u64(&writer, "micro_batch", profile->micro_batch);
    json_put_string(&writer, "dtype", profile->dtype);
    if (profile->sequences != SEQUENCES_UNSAID)
        json_put_bool(&writer, "sequences", profile->sequences == SEQUENCES_SOME);
    write_source(&profile->source, &writer);
    if (profile->estimated)
        estimated_write(profile->estimated, &writer, "estimate");

    json_begin_array(&writer, "layers", JSON_LINES);
    for (size_t i = 0; i < profile->layer_count; i++)
        write_layer(&profile->layers[i], &writer);
    json_close(&writer);

    if (!profile->is_chain)
        write_pairs("edges", profile->edges, profile->edge_count, &writer);
    write_pairs("tied", profile->tied, profile->tied_count, &writer);
    if (profile->lent_count)
        write_pairs("lent", profile->lent, profile->lent_count, &writer);
    json_begin_array(&writer, "no_cut_after", JSON_INLINE);
    for (size_t i = 0; i < profile->no_cut_count; i++)
        json_put_u64(&writer, NULL, profile->no_cut_after[i]);
    json_close(&writer);
    if (profile->notes)
        json_put_string(&writer, "notes", profile->notes);
    json_close(&writer);
}
