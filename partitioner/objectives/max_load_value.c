// What a plan is worth in dnn-partitioning's model, by plain loops over its layers and
// edges. Shared with the search is which variant a CPU runs, and whether tensors cross twice.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/objectives/max_load.h"

const struct profile_layer *max_load_on_cpu(const struct profile_layer *layer)
{
    for (size_t v = 0; v < layer->variant_count; v++)
        if (strcmp(layer->variants[v].layer.name, "cpu") == 0)
            return &layer->variants[v].layer;
    return NULL;
}

uint64_t max_load_crossings(const struct profile *profile)
{
    for (size_t i = 0; i < profile->layer_count; i++)
        if (profile->layers[i].backward_ns > 0)
            return 2;
    return 1;
}

struct pricing {
    const struct bottleneck_request *request;
    struct cut_machines machines;
    struct bottleneck_result *plan;
    const uint32_t *stage_of;
    const struct edge *edges;
    size_t edge_count;
};

static bool reads(const struct pricing *pricing, uint32_t layer, uint32_t stage)
{
    for (size_t e = 0; e < pricing->edge_count; e++)
        if (pricing->edges[e].from == layer && pricing->stage_of[pricing->edges[e].to] == stage)
            return true;
    return false;
}

static bool is_read_elsewhere(const struct pricing *pricing, uint32_t layer)
{
    for (size_t e = 0; e < pricing->edge_count; e++)
        if (pricing->edges[e].from == layer && pricing->stage_of[pricing->edges[e].to] != pricing->stage_of[layer])
            return true;
    return false;
}

static bool price_cpu(struct pricing *pricing, uint32_t s, uint64_t *load, struct error *error)
{
    const struct bottleneck_stage *stage = &pricing->plan->stages[s];
    for (uint32_t at = stage->first; at < stage->end; at++) {
        const struct profile_layer *layer = &pricing->request->profile->layers[pricing->plan->order[at]];
        const struct profile_layer *way = max_load_on_cpu(layer);
        if (!way)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: layer \"%s\" has no variant \"cpu\"", s, layer->name);
        *load += way->forward_ns + way->backward_ns;
    }
    return true;
}

static bool price_accelerator(struct pricing *pricing, uint32_t s, uint64_t *load, struct error *error)
{
    const struct profile *profile = pricing->request->profile;
    const struct cut_machines *machines = &pricing->machines;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const bool is_own = pricing->stage_of[i] == s;
        if (is_own) {
            *load += layer->forward_ns + layer->backward_ns;
            bytes += layer->parameter_bytes + layer->saved_bytes;
        }
        if (is_own ? is_read_elsewhere(pricing, i) : reads(pricing, i, s))
            *load += max_load_crossings(profile)
                   * transfer_ns(layer->output_bytes, machines->bytes_per_second, machines->latency_ns);
    }
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    return bytes <= machines->memory_bytes
        || error_set_kind(error, ERROR_ANSWER, "stage %u: its layers hold %s, its machine %s", s,
                          bytes_format(bytes, holds), bytes_format(machines->memory_bytes, has));
}

static bool price(struct pricing *pricing, struct error *error)
{
    struct bottleneck_result *plan = pricing->plan;
    uint32_t accelerators = 0, cpus = 0;
    plan->value_ns = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        struct bottleneck_stage *stage = &plan->stages[s];
        uint64_t load = 0;
        if (stage->replicas != 1 || stage->group != 1)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: max-load knows stages on one machine only", s);
        *(stage->on_cpu ? &cpus : &accelerators) += 1;
        if (!(stage->on_cpu ? price_cpu : price_accelerator)(pricing, s, &load, error))
            return false;
        stage->load_ns = (double)load;
        if (stage->load_ns > plan->value_ns)
            plan->value_ns = stage->load_ns;
    }
    plan->machines_used = accelerators + cpus;
    if (accelerators <= pricing->machines.accelerators && cpus <= pricing->machines.cpus)
        return true;
    return error_set_kind(error, ERROR_ANSWER, "the plan takes %u accelerators and %u CPUs; there are %u and %u",
                          accelerators, cpus, pricing->machines.accelerators, pricing->machines.cpus);
}

bool max_load_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error)
{
    struct pricing pricing = { .request = request, .plan = plan };
    if (!cut_machines_find(&pricing.machines, request, error))
        return false;
    uint32_t *stage_of = cut_stages(request, plan, error);
    struct edge *edges = stage_of ? downsets_edges(request->profile, &pricing.edge_count, error) : NULL;
    pricing.stage_of = stage_of;
    pricing.edges = edges;
    const bool good = edges && price(&pricing, error);
    free(stage_of);
    free(edges);
    return good;
}
