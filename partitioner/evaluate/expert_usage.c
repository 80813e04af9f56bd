#include "partitioner/evaluate/expert_usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/cost/variant.h"
#include "partitioner/cost/within.h"

bool expert_routing_of(const struct measured_run *run, const char *file, struct profile_routing **routing,
                       struct error *error)
{
    *routing = NULL;
    if (!run->about.data)
        return true;
    struct json_document *document = json_parse(run->about.data, run->about.length, file, error);
    if (!document)
        return false;
    struct json root = json_root(document);
    const bool is_there = json_has(&root, "routing");
    *routing = is_there ? routing_read(&root) : NULL;
    json_end(&root);
    const bool good = (!is_there || *routing || error_no_memory(error, "the routing of experts"))
                   && json_ok(document, error);
    json_free(document);
    return good;
}

bool expert_layers_are_in(const struct profile *profile)
{
    for (size_t l = 0; profile && l < profile->layer_count; l++)
        if (profile_layer_has_experts(&profile->layers[l]))
            return true;
    return false;
}

static const struct plan_stage *stage_with(const struct plan *plan, const char *layer)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        for (uint32_t i = 0; i < plan->stages[s].end - plan->stages[s].first; i++)
            if (strcmp(plan->stages[s].layers[i], layer) == 0)
                return &plan->stages[s];
    return NULL;
}

static const struct profile_variant *variant_in(const struct profile *profile, const struct plan_stage *stage,
                                                const char *layer)
{
    const size_t l = profile ? profile_find_layer(profile, layer) : 0;
    if (!profile || l == profile->layer_count || !stage->variant)
        return NULL;
    for (size_t v = 0; v < profile->layers[l].variant_count; v++)
        if (strcmp(profile->layers[l].variants[v].layer.name, stage->variant) == 0)
            return &profile->layers[l].variants[v];
    return NULL;
}

static bool find_row(const struct plan *plan, const struct profile *profile, const struct profile_routing *routing,
                     const struct layer_routing *layer, struct expert_usage *row, struct error *error)
{
    const struct plan_stage *stage = stage_with(plan, layer->layer);
    if (!stage)
        return error_set(error, "the run has counted the experts of layer %.60s, and the plan has no such layer",
                         layer->layer);
    const struct profile_variant *variant = variant_in(profile, stage, layer->layer);
    const uint64_t pairs = layer->pairs * routing->batches;
    *row = (struct expert_usage){ .batches = routing->batches };
    snprintf(row->layer, sizeof row->layer, "%s", layer->layer);
    if (variant && variant->slowest_milli > 0) {
        row->is_planned = true;
        row->planned_slowest_milli = variant->slowest_milli;
        row->planned_dropped_ppm = variant->dropped_ppm;
    }
    if (layer->members)
        row->slowest_milli = routing_slowest_milli(routing, layer, layer->members, plan_stage_group(stage),
                                                   layer->capacity);
    row->dropped_ppm = (uint64_t)(((unsigned __int128)1000000 * layer->dropped + pairs / 2) / pairs);
    return true;
}

bool expert_usage_find(const struct plan *plan, const struct profile *profile, const struct profile_routing *routing,
                       struct expert_usage **rows, size_t *count, struct error *error)
{
    bool good = true;
    *count = 0;
    *rows = calloc(routing->layer_count + 1, sizeof **rows);
    if (!*rows)
        return error_no_memory(error, "a comparison");
    for (size_t l = 0; good && l < routing->layer_count; l++)
        good = find_row(plan, profile, routing, &routing->layers[l], &(*rows)[(*count)++], error);
    return good;
}

struct stage_exchange *expert_exchanges_find(const struct plan *plan, const struct profile *profile,
                                             const struct profile_routing *routing, struct error *error)
{
    struct stage_exchange *all = calloc(plan->stage_count + 1u, sizeof *all);
    if (!all)
        error_no_memory(error, "a comparison");
    for (size_t l = 0; all && l < routing->layer_count; l++) {
        const struct layer_routing *layer = &routing->layers[l];
        const struct plan_stage *stage = stage_with(plan, layer->layer);
        const struct profile_variant *variant = stage ? variant_in(profile, stage, layer->layer) : NULL;
        if (!variant || layer->exchanges == 0)
            continue;
        // Each action exchanges twice, to the experts and back. Those of a layer that is cut do so once.
        const uint64_t times = strcmp(profile->layers[profile_find_layer(profile, layer->layer)].kind, "products") == 0
            ? 1 : 2;
        all[stage - plan->stages].planned_ns += within_scaled_ns(plan, stage, variant->communication_ns);
        all[stage - plan->stages].measured_ns += (times * layer->exchange_ns + layer->exchanges / 2)
            / layer->exchanges;
    }
    return all;
}
