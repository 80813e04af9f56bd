#include "partitioner/objectives/cut_view.h"

#include <stdlib.h>
#include <string.h>

bool cut_is_cpu(const struct cluster_device *device)
{
    return strncmp(device->name, "cpu", 3) == 0 && device->name[3 + strspn(device->name + 3, "0123456789")] == '\0';
}

bool cut_machines_find(struct cut_machines *machines, const struct bottleneck_request *request, struct error *error)
{
    for (size_t d = 0; d < request->cluster->device_count; d++) {
        const struct cluster_device *device = &request->cluster->devices[d];
        if (!cut_is_cpu(device) && device->speed_permille != 1000)
            return error_set(error, "%s knows machines of the profile's speed only; device %zu has %llu permille of it",
                             bottleneck_names[request->model], d, (unsigned long long)device->speed_permille);
    }
    return cut_machines_of_any_speed(machines, request, error);
}

bool cut_machines_of_any_speed(struct cut_machines *machines, const struct bottleneck_request *request,
                               struct error *error)
{
    const struct cluster *cluster = request->cluster;
    const char *model = bottleneck_names[request->model];
    *machines = (struct cut_machines){ .cpus = request->cpus, .memory_bytes = UINT64_MAX };
    for (size_t d = 0; d < cluster->device_count; d++) {
        const struct cluster_device *device = &cluster->devices[d];
        if (cut_is_cpu(device)) {
            machines->cpus++;
            continue;
        }
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
    if (cluster->level_count > 1)
        return error_set(error, "%s knows one rate between all machines; the cluster has %zu levels of links", model,
                         cluster->level_count);
    if (cluster->level_count == 1) {
        machines->bytes_per_second = cluster->levels[0].bytes_per_second;
        machines->latency_ns = cluster->levels[0].latency_ns;
    }
    return true;
}

// --- where to cut -------------------------------------------------------------------

// The only neighbour of a layer among those not merged yet, or UINT32_MAX.
static uint32_t only_neighbour(const struct cut_view *view, const uint32_t *into, uint32_t layer)
{
    uint32_t found = UINT32_MAX;
    for (size_t e = 0; e < view->graph.edge_count; e++) {
        const struct edge edge = view->edges[e];
        if (edge.from != layer && edge.to != layer)
            continue;
        const uint32_t other = edge.from == layer ? edge.to : edge.from;
        if (into[other] == layer)
            continue;  // it stands here already
        if (found != UINT32_MAX)
            return UINT32_MAX;
        found = other;
    }
    return found;
}

// into[layer]: the layer it stands with, or itself.
static void merge_free(const struct cut_view *view, const bool *is_free, uint32_t *into)
{
    const uint32_t layers = (uint32_t)view->request->profile->layer_count;
    for (uint32_t i = 0; i < layers; i++)
        into[i] = i;
    for (bool changed = is_free != NULL; changed;) {
        changed = false;
        for (uint32_t i = 0; i < layers; i++) {
            const uint32_t other = is_free[i] && into[i] == i ? only_neighbour(view, into, i) : UINT32_MAX;
            if (other == UINT32_MAX)
                continue;
            into[i] = other;
            changed = true;
        }
    }
}

// Layers with nobody to stand with are the nodes, in their order; the others follow theirs.
static bool fill_nodes(struct cut_view *view, const bool *is_free, struct error *error)
{
    const uint32_t layers = (uint32_t)view->request->profile->layer_count;
    uint32_t *into = calloc(layers, sizeof into[0]);
    view->node_of = calloc(layers, sizeof view->node_of[0]);
    const bool good = (into && view->node_of) || error_no_memory(error, "the nodes of a graph");
    if (good)
        merge_free(view, is_free, into);
    for (uint32_t i = 0; good && i < layers; i++)
        if (into[i] == i)
            view->node_of[i] = (uint32_t)view->graph.node_count++;
    for (uint32_t i = 0; good && i < layers; i++) {
        uint32_t root = i;
        while (into[root] != root)
            root = into[root];
        view->node_of[i] = view->node_of[root];
    }
    free(into);
    size_t kept = 0;
    for (size_t e = 0; good && e < view->graph.edge_count; e++) {
        const struct edge edge = { view->node_of[view->edges[e].from], view->node_of[view->edges[e].to] };
        if (edge.from != edge.to)
            view->edges[kept++] = edge;
    }
    view->graph.edge_count = kept;
    return good;
}

uint64_t *cut_view_sum(const struct cut_view *view, const uint64_t *value, struct error *error)
{
    uint64_t *of_node = calloc(view->graph.node_count, sizeof of_node[0]);
    if (!of_node) {
        error_no_memory(error, "the sums of a graph");
        return NULL;
    }
    for (size_t i = 0; i < view->request->profile->layer_count; i++)
        of_node[view->node_of[i]] += value[i];
    uint64_t *sums = downsets_sum(view->downsets, of_node, error);
    free(of_node);
    return sums;
}

static bool fill_downsets(struct cut_view *view, struct error *error)
{
    struct error too_many = { 0 };
    view->downsets = downsets_create(&view->graph, view->request->most_downsets, &too_many);
    view->has_all_downsets = view->downsets != NULL;
    if (view->downsets)
        return true;
    if (too_many.kind == ERROR_MACHINE) {
        *error = too_many;
        return false;
    }
    uint32_t *order = malloc(view->graph.node_count * sizeof order[0]);
    for (uint32_t i = 0; order && i < view->graph.node_count; i++)
        order[i] = i;
    view->downsets = order ? downsets_of_order(order, view->graph.node_count, error) : NULL;
    if (!order)
        error_no_memory(error, "the order of a model's layers");
    free(order);
    return view->downsets != NULL;
}

static bool parts(const struct cut_view *view, size_t downset, uint32_t a, uint32_t b)
{
    return cut_view_holds(view, downset, a) != cut_view_holds(view, downset, b);
}

static bool fill_may_cut(struct cut_view *view, struct error *error)
{
    const struct profile *profile = view->request->profile;
    const struct downsets *downsets = view->downsets;
    view->may_cut = calloc(downsets->count, sizeof view->may_cut[0]);
    if (!view->may_cut)
        return error_no_memory(error, "where a graph may be cut");
    for (size_t d = 0; d < downsets->count; d++) {
        bool joined = false;
        for (size_t i = 0; i < profile->tied_count; i++)
            joined |= parts(view, d, profile->tied[i].from, profile->tied[i].to);
        for (size_t i = 0; i < profile->no_cut_count; i++)
            if (profile->no_cut_after[i] + 1 < profile->layer_count)
                joined |= parts(view, d, profile->no_cut_after[i], profile->no_cut_after[i] + 1);
        view->may_cut[d] = !joined;
    }
    return true;
}

bool cut_view_create(struct cut_view *view, const struct bottleneck_request *request, const bool *is_free,
                     struct error *error)
{
    *view = (struct cut_view){ .request = request };
    if (!cut_machines_find(&view->machines, request, error))
        return false;
    view->edges = downsets_edges(request->profile, &view->graph.edge_count, error);
    view->graph.edges = view->edges;
    if (view->edges && fill_nodes(view, is_free, error) && fill_downsets(view, error) && fill_may_cut(view, error))
        return true;
    cut_view_clear(view);
    return false;
}

void cut_view_clear(struct cut_view *view)
{
    free(view->node_of);
    free(view->edges);
    downsets_free(view->downsets);
    free(view->may_cut);
    *view = (struct cut_view){ .request = NULL };
}

// --- what a plan must be ----------------------------------------------------------------

static bool list_stages(const struct bottleneck_result *plan, uint32_t *stage_of, struct error *error)
{
    uint32_t at = 0;
    for (size_t i = 0; i < plan->layer_count; i++)
        stage_of[i] = UINT32_MAX;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct bottleneck_stage *stage = &plan->stages[s];
        if (stage->first != at || stage->end < at || stage->end > plan->layer_count || stage->replicas == 0)
            return error_set(error, "stage %u does not begin where the stage before it ends, or is on no machine", s);
        for (; at < stage->end; at++) {
            if (plan->order[at] >= plan->layer_count || stage_of[plan->order[at]] != UINT32_MAX)
                return error_set(error, "stage %u holds layer %u, which is not there or in a stage already", s,
                                 plan->order[at]);
            stage_of[plan->order[at]] = s;
        }
    }
    return at == plan->layer_count || error_set(error, "the stages do not hold all %zu layers", plan->layer_count);
}

static bool are_together(const struct profile *profile, const uint32_t *stage_of, uint32_t a, uint32_t b,
                         struct error *error)
{
    if (b >= profile->layer_count || stage_of[a] == stage_of[b])
        return true;
    return error_set_kind(error, ERROR_ANSWER, "stages %u and %u part layers \"%s\" and \"%s\", which belong together",
                          stage_of[a], stage_of[b], profile->layers[a].name, profile->layers[b].name);
}

static bool check_stages(const struct profile *profile, const uint32_t *stage_of, struct error *error)
{
    size_t edge_count;
    struct edge *edges = downsets_edges(profile, &edge_count, error);
    bool good = edges != NULL;
    for (size_t e = 0; good && e < edge_count; e++)
        if (stage_of[edges[e].from] > stage_of[edges[e].to])
            good = error_set_kind(error, ERROR_ANSWER, "stage %u reads layer \"%s\", which is in stage %u",
                                  stage_of[edges[e].to], profile->layers[edges[e].from].name, stage_of[edges[e].from]);
    for (size_t i = 0; good && i < profile->tied_count; i++)
        good = are_together(profile, stage_of, profile->tied[i].from, profile->tied[i].to, error);
    for (size_t i = 0; good && i < profile->no_cut_count; i++)
        good = are_together(profile, stage_of, profile->no_cut_after[i], profile->no_cut_after[i] + 1, error);
    free(edges);
    return good;
}

uint32_t *cut_stages(const struct bottleneck_request *request, const struct bottleneck_result *plan,
                     struct error *error)
{
    uint32_t *stage_of = calloc(plan->layer_count + 1, sizeof stage_of[0]);
    if (!stage_of)
        error_no_memory(error, "the stages of a plan");
    if (stage_of && list_stages(plan, stage_of, error) && check_stages(request->profile, stage_of, error))
        return stage_of;
    free(stage_of);
    return NULL;
}
