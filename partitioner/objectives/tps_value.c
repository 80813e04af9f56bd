// What a plan is worth in Piper's model, by plain loops over its layers and edges, in long
// doubles. Shared with the search is what a layer's way is.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/objectives/tps.h"

struct pricing {
    const struct bottleneck_request *request;
    struct cut_machines machines;
    uint32_t micro_batches;
    struct bottleneck_result *plan;
    const uint32_t *stage_of;
    const struct edge *edges;
    size_t edge_count;
};

static bool get_way(const struct pricing *pricing, uint32_t layer, struct tps_way *way, struct error *error)
{
    const struct profile_layer *of = &pricing->request->profile->layers[layer];
    const uint32_t variant = pricing->plan->variant ? pricing->plan->variant[layer] : 0, s = pricing->stage_of[layer];
    if (variant > of->variant_count)
        return error_set(error, "layer \"%s\" has %zu variants, not %u", of->name, of->variant_count, variant);
    *way = tps_way_of(of, variant);
    return way->devices == pricing->plan->stages[s].group
        || error_set_kind(error, ERROR_ANSWER, "stage %u: layer \"%s\" runs on %u devices, the stage's groups have %u",
                          s, of->name, way->devices, pricing->plan->stages[s].group);
}

// Bytes along the edges between this layer and other stages.
static long double moved_bytes(const struct pricing *pricing, uint32_t layer, const struct tps_way *way)
{
    long double bytes = 0;
    for (size_t e = 0; e < pricing->edge_count; e++) {
        const struct edge edge = pricing->edges[e];
        if (pricing->stage_of[edge.from] == pricing->stage_of[edge.to])
            continue;
        if (edge.to == layer)
            bytes += profile_receive_bytes(pricing->request->profile, way->layer, edge.from);
        if (edge.from == layer)
            bytes += profile_send_bytes(way->layer, edge.to);
    }
    return bytes;
}

static bool price_stage(struct pricing *pricing, uint32_t s, uint64_t replicas_from_here, struct error *error)
{
    struct bottleneck_stage *stage = &pricing->plan->stages[s];
    const uint32_t d = stage->replicas;
    const uint64_t in_flight = (replicas_from_here + d - 1) / d;
    long double time = 0, moved = 0, parameters = 0;
    uint64_t held = 0;
    for (uint32_t at = stage->first; at < stage->end; at++) {
        const uint32_t layer = pricing->plan->order[at];
        struct tps_way way = { .layer = NULL };
        if (!get_way(pricing, layer, &way, error))
            return false;
        time += way.time_ns;
        moved += moved_bytes(pricing, layer, &way);
        parameters += way.parameter_bytes;
        held = add_clamped(held, add_clamped(multiply_clamped(way.in_flight_bytes, in_flight), way.fixed_bytes));
    }
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    if (held > pricing->machines.memory_bytes)
        return error_set_kind(error, ERROR_ANSWER, "stage %u: its layers hold %s, its machine %s", s,
                              bytes_format(held, holds), bytes_format(pricing->machines.memory_bytes, has));
    const long double bytes = 2 * moved + 4 * (long double)(d - 1) * parameters / pricing->micro_batches;
    const uint64_t rate = pricing->machines.bytes_per_second;
    stage->load_ns = (double)((time + (rate ? bytes * 1e9L / rate : 0)) / d);
    return true;
}

static bool price(struct pricing *pricing, struct error *error)
{
    struct bottleneck_result *plan = pricing->plan;
    uint64_t replicas = 0, machines = 0;
    plan->value_ns = 0;
    for (uint32_t s = (uint32_t)plan->stage_count; s-- > 0;) {
        struct bottleneck_stage *stage = &plan->stages[s];
        replicas += stage->replicas;
        machines += (uint64_t)stage->replicas * stage->group;
        if (pricing->micro_batches % stage->replicas != 0)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: %u replicas cannot share %u micro-batches evenly", s,
                                  stage->replicas, pricing->micro_batches);
        if (stage->replicas > 1 && pricing->request->is_straight)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: replicas were not asked for", s);
        if (!price_stage(pricing, s, replicas, error))
            return false;
        if (stage->load_ns > plan->value_ns)
            plan->value_ns = stage->load_ns;
    }
    if (replicas > pricing->micro_batches)
        return error_set_kind(error, ERROR_ANSWER, "the stages have %llu replicas in all, for %u micro-batches",
                              (unsigned long long)replicas, pricing->micro_batches);
    if (machines > pricing->machines.accelerators)
        return error_set_kind(error, ERROR_ANSWER, "the plan takes %llu machines; there are %u",
                              (unsigned long long)machines, pricing->machines.accelerators);
    plan->machines_used = (uint32_t)machines;
    return true;
}

bool tps_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error)
{
    struct pricing pricing = { .request = request, .plan = plan };
    if (!cut_machines_find(&pricing.machines, request, error))
        return false;
    pricing.micro_batches = tps_micro_batches(request, &pricing.machines);
    uint32_t *stage_of = cut_stages(request, plan, error);
    struct edge *edges = stage_of ? downsets_edges(request->profile, &pricing.edge_count, error) : NULL;
    pricing.stage_of = stage_of;
    pricing.edges = edges;
    const bool good = edges && price(&pricing, error);
    free(stage_of);
    free(edges);
    return good;
}
