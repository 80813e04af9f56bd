#include "common/json.h"
#include "profiler/estimate/estimated.h"
#include "profiler/expert_routing.h"
#include "profiler/profile.h"
#include "profiler/profile_transfers.h"
#include "profiler/profile_words.h"
#include "profiler/table_reads.h"

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
    if (layer->shared_by_parts_bytes)
        json_put_u64(writer, "shared_by_parts_bytes", layer->shared_by_parts_bytes);
    json_put_string(writer, "input_kept", input_kept_words[layer->input_kept]);
    json_put_u64(writer, "held_for_weight_bytes", layer->held_for_weight_bytes);
    json_put_u64(writer, "workspace_bytes", layer->workspace_bytes);
    json_put_u64(writer, "backward_workspace_bytes", layer->backward_workspace_bytes);
    if (layer->state_bytes)
        json_put_u64(writer, "state_bytes", layer->state_bytes);
    if (layer->statistics_bytes)
        json_put_u64(writer, "statistics_bytes", layer->statistics_bytes);
    if (layer->touched_rows) {
        json_put_u64(writer, "touched_rows", layer->touched_rows);
        json_put_u64(writer, "row_bytes", layer->row_bytes);
        if (layer->summed_rows)
            json_put_u64(writer, "summed_rows", layer->summed_rows);
    }
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

static void write_variants(const struct profile_layer *layer, struct json_writer *writer)
{
    if (layer->variant_count == 0)
        return;
    json_begin_array(writer, "variants", JSON_LINES);
    for (size_t i = 0; i < layer->variant_count; i++) {
        json_begin_object(writer, NULL, JSON_LINES);
        json_put_string(writer, "name", layer->variants[i].layer.name);
        if (layer->variants[i].devices > 1)
            json_put_u64(writer, "devices", layer->variants[i].devices);
        if (layer->variants[i].shares_output)
            json_put_bool(writer, "shares_output", true);
        json_put_u64(writer, "communication_ns", layer->variants[i].communication_ns);
        if (layer->variants[i].update_ns > 0)
            json_put_u64(writer, "update_ns", layer->variants[i].update_ns);
        if (layer->variants[i].slowest_milli > 0) {
            json_put_u64(writer, "slowest_milli", layer->variants[i].slowest_milli);
            json_put_u64(writer, "dropped_ppm", layer->variants[i].dropped_ppm);
        }
        write_numbers(&layer->variants[i].layer, writer);
        if (layer->variants[i].layer.touched_rows)
            write_shapes(&layer->variants[i].layer, writer);
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

void profile_write(const struct profile *profile, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.profile");
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
    if (profile->one_owner_count)
        write_pairs("one_owner", profile->one_owner, profile->one_owner_count, &writer);
    json_begin_array(&writer, "no_cut_after", JSON_INLINE);
    for (size_t i = 0; i < profile->no_cut_count; i++)
        json_put_u64(&writer, NULL, profile->no_cut_after[i]);
    json_close(&writer);
    if (profile->reads)
        reads_write(profile->reads, &writer);
    if (profile->routing)
        routing_write(profile->routing, &writer);
    if (profile->notes)
        json_put_string(&writer, "notes", profile->notes);
    json_close(&writer);
}
