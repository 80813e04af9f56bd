#include "partitioner/objectives/graph_view.h"

#include <stdlib.h>
#include <string.h>

const char *const bottleneck_names[] = { "pipedream", "max-load", "tps", NULL };

bool is_cpu(const struct cluster_device *device)
{
    return strncmp(device->name, "cpu", 3) == 0 && device->name[3 + strspn(device->name + 3, "0123456789")] == '\0';
}

bool machines_find(struct machines *machines, const struct bottleneck_request *request, size_t most_levels,
                   bool of_any_speed, struct error *error)
{
    const struct cluster *cluster = request->cluster;
    *machines = (struct machines){ .cpus = request->cpus, .memory_bytes = UINT64_MAX };
    for (size_t d = 0; d < cluster->device_count; d++) {
        const struct cluster_device *device = &cluster->devices[d];
        if (is_cpu(device)) {
            machines->cpus++;
            continue;
        }
        if (!of_any_speed && device->speed_permille != 1000)
            return error_set(error, "%s knows machines of the profile's speed only; device %zu has %llu permille of it",
                             bottleneck_names[request->model], d, (unsigned long long)device->speed_permille);
        if (request->machines && machines->accelerators == request->machines)
            continue;
        machines->accelerators++;
        if (device->memory_bytes < machines->memory_bytes)
            machines->memory_bytes = device->memory_bytes;
    }
    if (machines->accelerators < request->machines)
        return error_set(error, "%u machines were asked for, and the cluster has %u", request->machines,
                         machines->accelerators);
    if (machines->accelerators + machines->cpus == 0)
        return error_set(error, "the cluster has no machine to plan for");
    if (cluster->level_count > most_levels)
        return error_set(error, "%s knows %s; the cluster has %zu levels of links", bottleneck_names[request->model],
                         most_levels == 1 ? "one rate between all machines" : "one or two levels of links",
                         cluster->level_count);
    if (cluster->level_count > 0) {
        machines->bytes_per_second = cluster->levels[0].bytes_per_second;
        machines->latency_ns = cluster->levels[0].latency_ns;
    }
    return true;
}

// --- where to cut ------------------------------------------------------------------------

static bool fill_nodes(struct graph_view *view, const uint32_t *node_of, struct error *error)
{
    const uint32_t layers = (uint32_t)view->request->profile->layer_count;
    view->node_of = arrays_add(&view->arrays, layers, sizeof view->node_of[0]);
    view->layers = arrays_add(&view->arrays, layers, sizeof view->layers[0]);
    view->layer_at = arrays_add(&view->arrays, layers + (size_t)2, sizeof view->layer_at[0]);
    if (view->arrays.failed)
        return error_no_memory(error, "the nodes of a graph");
    for (uint32_t i = 0; i < layers; i++) {
        const uint32_t node = view->node_of[i] = node_of ? node_of[i] : i;
        if (node == DOWNSETS_LEFT_OUT)
            continue;
        view->layer_at[node + 2]++;
        view->graph.node_count = node >= view->graph.node_count ? node + 1 : view->graph.node_count;
    }
    // Counted two positions up, so that filling leaves each node's beginning at its own position.
    for (uint32_t n = 2; n <= view->graph.node_count; n++)
        view->layer_at[n] += view->layer_at[n - 1];
    for (uint32_t i = 0; i < layers; i++)
        if (view->node_of[i] != DOWNSETS_LEFT_OUT)
            view->layers[view->layer_at[view->node_of[i] + 1]++] = i;
    view->edges = arrays_keep(
        &view->arrays, downsets_edges(view->request->profile, view->node_of, &view->graph.edge_count, error));
    view->graph.edges = view->edges;
    if (!view->edges)
        return error_no_memory(error, "the nodes of a graph");
    return view->graph.node_count > 0 || error_set(error, "%s has no layers but inputs", view->request->profile->model);
}

uint64_t *graph_view_sum(struct graph_view *view, const uint64_t *value)
{
    struct error no_memory = { 0 };
    uint64_t *of_node = calloc(view->graph.node_count, sizeof of_node[0]);
    for (size_t i = 0; of_node && i < view->request->profile->layer_count; i++)
        if (view->node_of[i] != DOWNSETS_LEFT_OUT)
            of_node[view->node_of[i]] += value[i];
    uint64_t *sums = of_node ? downsets_sum(view->downsets, of_node, &no_memory) : NULL;
    free(of_node);
    return arrays_keep(&view->arrays, sums);
}

uint64_t *graph_view_sum_of(struct graph_view *view, graph_view_value *value)
{
    const struct profile *profile = view->request->profile;
    uint64_t *values = arrays_add(&view->arrays, profile->layer_count, sizeof values[0]);
    for (size_t i = 0; values && i < profile->layer_count; i++)
        values[i] = value(&profile->layers[i]);
    return values ? graph_view_sum(view, values) : NULL;
}

// Whether the order of these downsets is the only one, because each node feeds the next.
static bool is_only_order(const struct downsets *downsets)
{
    for (size_t n = 0; n + 1 < downsets->node_count; n++)
        if (!downsets_reads(downsets, downsets->above[n + 1].node, downsets->above[n].node))
            return false;
    return true;
}

// The order of the nodes, or of a plan's layers, each of which is a node or left out.
static bool fill_order(struct graph_view *view, const uint32_t *layers, struct error *error)
{
    uint32_t *order = layers ? arrays_add(&view->arrays, view->graph.node_count, sizeof order[0]) : NULL, count = 0;
    for (uint32_t i = 0; order && i < view->request->profile->layer_count; i++)
        if (view->node_of[layers[i]] != DOWNSETS_LEFT_OUT)
            order[count++] = view->node_of[layers[i]];
    if (view->arrays.failed)
        return error_no_memory(error, "the order of a model's layers");
    view->downsets = downsets_of_order(&view->graph, order, error);
    view->is_whole = view->downsets && is_only_order(view->downsets);
    return view->downsets != NULL;
}

bool graph_view_create(struct graph_view *view, const struct bottleneck_request *request, const uint32_t *node_of,
                       bool of_order, const uint32_t *order, struct error *error)
{
    *view = (struct graph_view){ .request = request, .is_whole = true };
    bool good = fill_nodes(view, node_of, error);
    if (good && of_order)
        good = fill_order(view, order, error);
    else if (good)
        good = (view->downsets = downsets_create(&view->graph, request->most_downsets, error)) != NULL;
    if (good)
        return true;
    graph_view_clear(view);
    return false;
}

void graph_view_clear(struct graph_view *view)
{
    arrays_clear(&view->arrays);
    downsets_free(view->downsets);
    *view = (struct graph_view){ .request = NULL };
}

// --- what a plan must be ----------------------------------------------------------------

static bool are_together(const struct profile *profile, const uint32_t *stage_of, uint32_t a, uint32_t b,
                         struct error *error)
{
    if (b >= profile->layer_count || stage_of[a] == stage_of[b])
        return true;
    return error_set_kind(error, ERROR_ANSWER, "stages %u and %u part layers \"%s\" and \"%s\", which belong together",
                          stage_of[a], stage_of[b], profile->layers[a].name, profile->layers[b].name);
}

static bool check_stages(const struct profile *profile, const uint32_t *stage_of, bool heeds_ties, struct error *error)
{
    size_t edge_count;
    struct edge *edges = downsets_edges(profile, NULL, &edge_count, error);
    bool good = edges != NULL;
    for (size_t e = 0; good && e < edge_count; e++)
        if (stage_of[edges[e].from] > stage_of[edges[e].to])
            good = error_set_kind(error, ERROR_ANSWER, "stage %u reads layer \"%s\", which is in stage %u",
                                  stage_of[edges[e].to], profile->layers[edges[e].from].name, stage_of[edges[e].from]);
    for (size_t i = 0; good && heeds_ties && i < profile->tied_count; i++)
        good = are_together(profile, stage_of, profile->tied[i].from, profile->tied[i].to, error);
    for (size_t i = 0; good && heeds_ties && i < profile->no_cut_count; i++)
        good = are_together(profile, stage_of, profile->no_cut_after[i], profile->no_cut_after[i] + 1, error);
    free(edges);
    return good;
}

bool graph_view_check(const struct profile *profile, const struct bottleneck_result *plan, bool heeds_ties,
                      struct error *error)
{
    uint32_t *stage_of = calloc(plan->layer_count + 1, sizeof stage_of[0]);
    if (!stage_of)
        return error_no_memory(error, "the stages of a plan");
    for (uint32_t s = 0; s < plan->stage_count; s++)
        for (uint32_t position = plan->stages[s].first; position < plan->stages[s].end; position++)
            stage_of[plan->order[position]] = s;
    const bool good = check_stages(profile, stage_of, heeds_ties, error);
    free(stage_of);
    return good;
}
