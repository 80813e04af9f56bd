// What a plan is worth in PipeDream's model, by plain loops over its layers, in long
// doubles, whose rounding the digits of a double do not show. Shared with the search is
// what PipeDream's graph is: which layers are nodes, and whose outputs count.
#include <stdlib.h>
#include <string.h>

#include "partitioner/objectives/pipedream_view.h"

struct pricing {
    struct pipedream_view view;  // no more than its levels
    const struct bottleneck_result *plan;
    const struct profile *profile;
    uint32_t *node_of;
    uint32_t *stage_of;   // of each layer
    struct edge *edges;   // between nodes
    size_t edge_count;
    uint64_t *company;
    size_t node_count;
};

static void pricing_clear(struct pricing *pricing)
{
    free(pricing->node_of);
    free(pricing->stage_of);
    free(pricing->edges);
    free(pricing->company);
}

// Stages cover the order, and nobody reads what a later stage makes.
static bool is_a_plan(const struct pricing *pricing, struct error *error)
{
    const struct bottleneck_result *plan = pricing->plan;
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].first != (s ? plan->stages[s - 1].end : 0) || plan->stages[s].end < plan->stages[s].first
            || plan->stages[s].end > plan->layer_count || plan->stages[s].replicas == 0)
            return error_set(error, "stage %zu does not begin where the stage before it ends, or is on no machine", s);
    if (plan->stage_count == 0 || plan->stages[plan->stage_count - 1].end != plan->layer_count)
        return error_set(error, "the stages do not hold all %zu layers", plan->layer_count);
    return true;
}

static bool fill(struct pricing *pricing, struct error *error)
{
    const struct bottleneck_result *plan = pricing->plan;
    pricing->node_of = pipedream_nodes(pricing->profile, &pricing->node_count, error);
    pricing->edges = pricing->node_of ? downsets_edges(pricing->profile, &pricing->edge_count, error) : NULL;
    pricing->stage_of = calloc(plan->layer_count + 1, sizeof pricing->stage_of[0]);
    if (!pricing->edges || !pricing->stage_of)
        return error_no_memory(error, "the price of a plan");
    for (uint32_t s = 0; s < plan->stage_count; s++)
        for (uint32_t at = plan->stages[s].first; at < plan->stages[s].end; at++)
            pricing->stage_of[plan->order[at]] = s;
    size_t kept = 0;
    for (size_t e = 0; e < pricing->edge_count; e++) {
        const struct edge edge = pricing->edges[e];
        if (pricing->stage_of[edge.from] > pricing->stage_of[edge.to])
            return error_set(error, "stage %u reads layer \"%s\", which is in stage %u", pricing->stage_of[edge.to],
                             pricing->profile->layers[edge.from].name, pricing->stage_of[edge.from]);
        if (pricing->node_of[edge.from] != PIPEDREAM_LEFT_OUT && pricing->node_of[edge.to] != PIPEDREAM_LEFT_OUT)
            pricing->edges[kept++] = (struct edge){ pricing->node_of[edge.from], pricing->node_of[edge.to] };
    }
    pricing->edge_count = kept;
    const struct downset_graph graph = { pricing->node_count, pricing->edges, kept };
    pricing->company = pipedream_company(&graph, error);
    return pricing->company != NULL;
}

// --- one stage -------------------------------------------------------------------

struct sums {
    uint64_t work_ns, parameter_bytes, activation_bytes;
};

static struct sums add_up(const struct pricing *pricing, uint32_t first, uint32_t end)
{
    struct sums sums = { 0 };
    for (uint32_t at = first; at < end; at++) {
        const uint32_t number = pricing->plan->order[at];
        const struct profile_layer *layer = &pricing->profile->layers[number];
        if (pricing->node_of[number] == PIPEDREAM_LEFT_OUT)
            continue;
        sums.work_ns += layer->forward_ns + layer->backward_ns;
        sums.parameter_bytes += layer->parameter_bytes;
        sums.activation_bytes += layer->output_bytes;
    }
    return sums;
}

// Whether a node is among the first `stage` stages and no reader of it is.
static bool is_maximal(const struct pricing *pricing, const uint32_t *stage_of_node, uint32_t node, uint32_t stage)
{
    for (size_t e = 0; e < pricing->edge_count; e++)
        if (pricing->edges[e].from == node && stage_of_node[pricing->edges[e].to] < stage)
            return false;
    return stage_of_node[node] < stage;
}

// Bytes that count as the output of all stages before `stage`.
static bool out_bytes(const struct pricing *pricing, uint32_t stage, uint64_t *bytes, struct error *error)
{
    const size_t nodes = pricing->node_count, words = (nodes + 63) / 64;
    uint32_t *stage_of_node = calloc(nodes + 1, sizeof stage_of_node[0]),
             *layer_of = calloc(nodes + 1, sizeof layer_of[0]);
    uint64_t *row = calloc(words + 1, sizeof row[0]);
    const bool good = (stage_of_node && layer_of && row) || error_no_memory(error, "the outputs of a plan");
    for (uint32_t i = 0; good && i < pricing->plan->layer_count; i++)
        if (pricing->node_of[i] != PIPEDREAM_LEFT_OUT) {
            stage_of_node[pricing->node_of[i]] = pricing->stage_of[i];
            layer_of[pricing->node_of[i]] = i;
        }
    for (uint32_t n = 0; good && n < nodes; n++)
        for (size_t w = 0; w < words && is_maximal(pricing, stage_of_node, n, stage); w++)
            row[w] |= pricing->company[n * words + w];
    *bytes = 0;
    for (uint32_t n = 0; good && n < nodes; n++)
        if (row[n / 64] >> (n % 64) & 1)
            *bytes += pricing->profile->layers[layer_of[n]].output_bytes;
    free(stage_of_node);
    free(layer_of);
    free(row);
    return good;
}

static long double move_ns(const struct pipedream_level *level, uint64_t times, uint64_t bytes, uint32_t replicas)
{
    if (level->bytes_per_second == 0)
        return 0;
    return (long double)times * (long double)bytes * 1e9L / (long double)level->bytes_per_second / replicas;
}

// A stage or a part on `replicas` machines of a level, which one machine does in `time`.
static bool level_load(const struct pricing *pricing, size_t level, uint32_t stage, uint32_t end, uint32_t replicas,
                       bool is_first, long double time, long double *load, struct error *error)
{
    const struct pipedream_level *at = &pricing->view.levels[level];
    const struct bottleneck_stage *stages = pricing->plan->stages;
    const struct sums sums = add_up(pricing, stages[stage].first, stages[end - 1].end);
    const long double fewer = is_first && level == 1 ? pricing->view.levels[0].machines : 1;
    *load = (time + move_ns(at, 4 * (replicas - 1), sums.parameter_bytes, replicas) / fewer) / replicas;
    if (!pricing->view.request->counts_activations || is_first)
        return true;
    uint64_t into, out = 0;
    if (!out_bytes(pricing, stage, &into, error)
        || (end < pricing->plan->stage_count && !out_bytes(pricing, end, &out, error)))
        return false;
    const long double moved = move_ns(at, 2, into > out ? into : out, replicas);
    *load = *load > moved ? *load : moved;
    return true;
}

static bool heed_memory(const struct pricing *pricing, uint32_t stage, uint32_t end, uint32_t replicas, uint64_t later,
                        struct error *error)
{
    const struct bottleneck_stage *stages = pricing->plan->stages;
    const struct sums sums = add_up(pricing, stages[stage].first, stages[end - 1].end);
    const uint64_t copies = (later + replicas - 1) / replicas, bytes = sums.activation_bytes + sums.parameter_bytes;
    if (!pricing->view.request->heed_memory || copies == 0 || bytes <= pricing->view.memory_bytes / copies)
        return true;
    return error_set_kind(error, ERROR_ANSWER, "stage %u keeps %llu times %llu bytes by PipeDream's rule, and has %llu",
                          stage, (unsigned long long)copies, (unsigned long long)bytes,
                          (unsigned long long)pricing->view.memory_bytes);
}

// --- the whole -------------------------------------------------------------------

// Stages [first, end) are one part on some servers; `later` servers hold those after it.
static bool price_part(const struct pricing *pricing, struct bottleneck_stage *stages, uint32_t first, uint32_t end,
                       uint32_t later, struct error *error)
{
    const bool has_servers = pricing->view.level_count == 2;
    const uint32_t servers = has_servers ? stages[first].servers : 1;
    uint64_t machines = 0;
    for (uint32_t s = end; s-- > first;) {
        const uint32_t replicas = stages[s].replicas / servers;
        const struct sums sums = add_up(pricing, stages[s].first, stages[s].end);
        long double load, whole;
        if (!heed_memory(pricing, s, s + 1, replicas, has_servers ? machines : later, error)
            || !level_load(pricing, 0, s, s + 1, replicas, s == first && (has_servers || s == 0), sums.work_ns, &load,
                           error))
            return false;
        whole = load;
        if (has_servers && !level_load(pricing, 1, first, end, servers, first == 0, load, &whole, error))
            return false;
        stages[s].load_ns = (double)whole;
        machines += replicas;
    }
    if (has_servers && machines > pricing->view.levels[0].machines)
        return error_set(error, "stages %u to %u are on %llu machines of a server, which has %u", first, end - 1,
                         (unsigned long long)machines, pricing->view.levels[0].machines);
    return !has_servers || heed_memory(pricing, first, end, servers, later, error);
}

static bool check_replicas(const struct pricing *pricing, struct error *error)
{
    const struct bottleneck_result *plan = pricing->plan;
    const uint64_t machines = (uint64_t)pricing->view.levels[0].machines * pricing->view.levels[1].machines;
    uint64_t used = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct bottleneck_stage *stage = &plan->stages[s];
        if (pricing->view.request->is_straight && stage->replicas > 1)
            return error_set(error, "stage %zu has %u replicas, but none were asked for", s, stage->replicas);
        if (pricing->view.level_count == 2 && (stage->servers == 0 || stage->replicas % stage->servers != 0))
            return error_set(error, "stage %zu has %u replicas, which cannot be alike on %u servers", s,
                             stage->replicas, stage->servers);
        used += stage->replicas;
    }
    return used <= machines || error_set(error, "the stages take %llu machines of %llu", (unsigned long long)used,
                                         (unsigned long long)machines);
}

static bool price(const struct pricing *pricing, struct bottleneck_result *plan, struct error *error)
{
    const bool has_servers = pricing->view.level_count == 2;
    plan->value_ns = 0;
    plan->machines_used = 0;
    uint32_t later = 0;
    for (uint32_t end = (uint32_t)plan->stage_count; end > 0;) {
        uint32_t first = end - 1;
        while (has_servers && first > 0 && plan->stages[first - 1].part == plan->stages[first].part)
            first--;
        if (!price_part(pricing, plan->stages, first, end, later, error))
            return false;
        for (uint32_t s = first; s < end; s++) {
            plan->machines_used += plan->stages[s].replicas;
            plan->value_ns = plan->stages[s].load_ns > plan->value_ns ? plan->stages[s].load_ns : plan->value_ns;
        }
        if (has_servers && later + plan->stages[first].servers > pricing->view.levels[1].machines)
            return error_set(error, "the stages take more than %u servers", pricing->view.levels[1].machines);
        later += has_servers ? plan->stages[first].servers : plan->stages[first].replicas;
        end = first;
    }
    return true;
}

bool pipedream_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error)
{
    struct pricing pricing = { .plan = plan, .profile = request->profile };
    const bool good = pipedream_levels(&pricing.view, request, error) && is_a_plan(&pricing, error)
                   && check_replicas(&pricing, error) && fill(&pricing, error) && price(&pricing, plan, error);
    pricing_clear(&pricing);
    return good;
}
