#include "partitioner/objectives/pipedream_view.h"

#include <stdlib.h>
#include <string.h>

// --- levels ----------------------------------------------------------------------

static bool devices_are_alike(const struct cluster *cluster, struct error *error)
{
    for (size_t i = 1; i < cluster->device_count; i++)
        if (cluster->devices[i].speed_permille != cluster->devices[0].speed_permille)
            return error_set(error, "PipeDream's machines are all alike, but device %zu is not as fast as device 0", i);
    return true;
}

bool pipedream_levels(struct pipedream_view *view, const struct bottleneck_request *request, struct error *error)
{
    const struct cluster *cluster = request->cluster;
    const size_t all = cluster->device_count, machines = request->machines ? request->machines : all;
    view->request = request;
    if (cluster->level_count > 2)
        return error_set(error, "PipeDream's optimizer is followed for one or two levels of links, not %zu",
                         cluster->level_count);
    if (machines > all)
        return error_set(error, "the cluster has %zu devices, not %zu", all, machines);
    const size_t server = cluster->level_count ? cluster->levels[0].size : all;
    view->level_count = machines > server ? 2 : 1;
    if (view->level_count == 2 && machines % server != 0)
        return error_set(error, "%zu machines are no whole number of servers of %zu", machines, server);
    view->memory_bytes = UINT64_MAX;
    for (size_t i = 0; i < machines; i++)
        if (cluster->devices[i].memory_bytes < view->memory_bytes)
            view->memory_bytes = cluster->devices[i].memory_bytes;
    for (size_t l = 0; l < view->level_count; l++)
        view->levels[l].bytes_per_second = cluster->level_count ? cluster->levels[l].bytes_per_second : 0;
    view->levels[0].machines = (uint32_t)(view->level_count == 2 ? server : machines);
    view->levels[1].machines = (uint32_t)(view->level_count == 2 ? machines / server : 1);
    return devices_are_alike(cluster, error);
}

// --- nodes -----------------------------------------------------------------------

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

// Marks the layers that nobody of those not left out feeds (or reads, going upwards).
static void mark_ends(const struct edge *edges, size_t edge_count, const uint32_t *node_of, size_t layers, bool readers,
                      bool *is_end)
{
    for (size_t i = 0; i < layers; i++)
        is_end[i] = true;
    for (size_t e = 0; e < edge_count; e++) {
        const uint32_t other = readers ? edges[e].to : edges[e].from, end = readers ? edges[e].from : edges[e].to;
        if (node_of[other] != PIPEDREAM_LEFT_OUT)
            is_end[end] = false;
    }
}

uint32_t *pipedream_nodes(const struct profile *profile, size_t *node_count, struct error *error)
{
    const size_t layers = profile->layer_count;
    size_t edge_count;
    struct edge *edges = downsets_edges(profile, &edge_count, error);
    uint32_t *node_of = calloc(layers + 1, sizeof node_of[0]);
    bool *is_end = calloc(layers + 1, sizeof is_end[0]);
    *node_count = 0;
    if (edges && node_of && is_end) {
        mark_ends(edges, edge_count, node_of, layers, false, is_end);
        for (size_t i = 0; i < layers; i++)
            node_of[i] = is_end[i] && begins_with(profile->layers[i].kind, "Input") ? PIPEDREAM_LEFT_OUT : 0;
        mark_ends(edges, edge_count, node_of, layers, true, is_end);
        for (size_t i = 0; i < layers; i++)
            if (is_end[i] && begins_with(profile->layers[i].kind, "__getitem__"))
                node_of[i] = PIPEDREAM_LEFT_OUT;
        for (size_t i = 0; i < layers; i++)
            if (node_of[i] != PIPEDREAM_LEFT_OUT)
                node_of[i] = (uint32_t)(*node_count)++;
    } else if (edges) {
        error_no_memory(error, "the nodes of a graph");
        free(node_of);
        node_of = NULL;
    } else {
        free(node_of);
        node_of = NULL;
    }
    free(is_end);
    free(edges);
    return node_of;
}

static bool fill_graph(struct pipedream_view *view, struct error *error)
{
    const struct profile *profile = view->request->profile;
    size_t edge_count;
    view->node_of = pipedream_nodes(profile, &view->graph.node_count, error);
    view->edges = view->node_of ? downsets_edges(profile, &edge_count, error) : NULL;
    view->layer_of = calloc(view->graph.node_count + 1, sizeof view->layer_of[0]);
    view->edge_at = calloc(view->graph.node_count + 1, sizeof view->edge_at[0]);
    if (!view->edges || !view->layer_of || !view->edge_at)
        return error_no_memory(error, "the nodes of a graph");
    if (view->graph.node_count == 0)
        return error_set(error, "%s has no layers but inputs", profile->model);
    for (uint32_t i = 0; i < profile->layer_count; i++)
        if (view->node_of[i] != PIPEDREAM_LEFT_OUT)
            view->layer_of[view->node_of[i]] = i;
    for (size_t e = 0; e < edge_count; e++) {
        const struct edge edge = { view->node_of[view->edges[e].from], view->node_of[view->edges[e].to] };
        if (edge.from != PIPEDREAM_LEFT_OUT && edge.to != PIPEDREAM_LEFT_OUT)
            view->edges[view->graph.edge_count++] = edge;
    }
    view->graph.edges = view->edges;
    for (size_t e = view->graph.edge_count; e-- > 0;)
        view->edge_at[view->edges[e].from] = (uint32_t)e;
    return true;
}

// --- sums ------------------------------------------------------------------------

uint64_t *pipedream_company(const struct downset_graph *graph, struct error *error)
{
    const size_t nodes = graph->node_count, words = (nodes + 63) / 64;
    uint64_t *below = calloc(nodes * words + 1, sizeof below[0]), *company = calloc(nodes * words + 1, sizeof below[0]);
    if (!below || !company) {
        free(below);
        free(company);
        error_no_memory(error, "the outputs of a graph");
        return NULL;
    }
    for (size_t e = 0; e < graph->edge_count; e++) {  // sorted by their first node, whose row is therefore whole
        const uint32_t from = graph->edges[e].from, to = graph->edges[e].to;
        for (size_t w = 0; w < words; w++)
            below[to * words + w] |= below[from * words + w];
        below[to * words + from / 64] |= (uint64_t)1 << (from % 64);
    }
    for (size_t n = 0; n < nodes; n++) {
        uint64_t *row = company + n * words;
        const uint64_t *under = below + n * words;
        row[n / 64] |= (uint64_t)1 << (n % 64);
        for (size_t e = 0; e < graph->edge_count; e++) {
            const uint32_t from = graph->edges[e].from, to = graph->edges[e].to;
            if ((under[from / 64] >> (from % 64) & 1) && !(under[to / 64] >> (to % 64) & 1) && to != n)
                row[from / 64] |= (uint64_t)1 << (from % 64);
        }
    }
    free(below);
    return company;
}

static uint64_t sum_bits(const uint64_t *row, size_t words, const uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t w = 0; w < words; w++)
        for (uint64_t rest = row[w]; rest; rest &= rest - 1)
            sum += value[64 * w + (size_t)__builtin_ctzll(rest)];
    return sum;
}

// Whether a node of the downset is read by none of it.
static bool is_maximal(const struct pipedream_view *view, size_t downset, uint32_t node)
{
    const struct edge *edges = view->edges, *end = edges + view->graph.edge_count;
    for (const struct edge *edge = edges + view->edge_at[node]; edge < end && edge->from == node; edge++)
        if (downsets_holds(view->downsets, downset, edge->to))
            return false;
    return true;
}

static bool fill_out(struct pipedream_view *view, const uint64_t *output, struct error *error)
{
    const struct downsets *downsets = view->downsets;
    const size_t words = downsets->words;
    uint64_t *company = pipedream_company(&view->graph, error), *row = calloc(words + 1, sizeof row[0]);
    view->out = calloc(downsets->count, sizeof view->out[0]);
    const bool good = company && ((row && view->out) || error_no_memory(error, "the outputs of a graph"));
    for (size_t d = 1; good && d < downsets->count; d++) {
        memset(row, 0, words * sizeof row[0]);
        for (size_t w = 0; w < words; w++)
            for (uint64_t rest = downsets_set(downsets, d)[w]; rest; rest &= rest - 1) {
                const uint32_t node = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(rest);
                if (is_maximal(view, d, node))
                    for (size_t v = 0; v < words; v++)
                        row[v] |= company[node * words + v];
            }
        view->out[d] = sum_bits(row, words, output);
    }
    free(company);
    free(row);
    return good;
}

static bool fill_sums(struct pipedream_view *view, struct error *error)
{
    const size_t nodes = view->graph.node_count;
    uint64_t *value = calloc(3 * nodes, sizeof value[0]);
    if (!value)
        return error_no_memory(error, "the sums of a graph's downsets");
    for (size_t n = 0; n < nodes; n++) {
        const struct profile_layer *layer = &view->request->profile->layers[view->layer_of[n]];
        value[n] = layer->forward_ns + layer->backward_ns;
        value[nodes + n] = layer->parameter_bytes;
        value[2 * nodes + n] = layer->output_bytes;
    }
    view->work = downsets_sum(view->downsets, value, error);
    view->parameters = downsets_sum(view->downsets, value + nodes, error);
    view->activations = downsets_sum(view->downsets, value + 2 * nodes, error);
    const bool good = view->work && view->parameters && view->activations
                   && (!view->request->counts_activations || fill_out(view, value + 2 * nodes, error));
    free(value);
    return good;
}

// --- the whole -------------------------------------------------------------------

static bool feeds_next(const struct pipedream_view *view, uint32_t node)
{
    const struct edge *edges = view->edges, *end = edges + view->graph.edge_count;
    for (const struct edge *edge = edges + view->edge_at[node]; edge < end && edge->from == node; edge++)
        if (edge->to == node + 1)
            return true;
    return false;
}

static bool fill_order(struct pipedream_view *view, struct error *error)
{
    uint32_t *order = calloc(view->graph.node_count, sizeof order[0]);
    if (!order)
        return error_no_memory(error, "an order of layers");
    for (uint32_t n = 0; n < view->graph.node_count; n++)
        order[n] = n;
    view->downsets = downsets_of_order(order, view->graph.node_count, error);
    view->is_whole = true;
    for (size_t n = 0; n + 1 < view->graph.node_count; n++)
        view->is_whole &= feeds_next(view, (uint32_t)n);
    free(order);
    return view->downsets != NULL;
}

static bool fill_downsets(struct pipedream_view *view, struct error *error)
{
    struct error too_many = { 0 };
    view->downsets = downsets_create(&view->graph, view->request->most_downsets, &too_many);
    view->is_whole = true;
    if (!view->downsets && too_many.kind == ERROR_MACHINE)
        *error = too_many;
    return too_many.kind != ERROR_MACHINE;
}

// What a machine's share of time, an all-reduce and a transfer cost, by replicas.
static bool fill_rates(struct pipedream_view *view, struct error *error)
{
    for (size_t l = 0; l < view->level_count; l++) {
        const struct pipedream_level *level = &view->levels[l];
        const size_t room = (size_t)level->machines + 1;
        double *rates = calloc(4 * room, sizeof rates[0]);
        if (!rates)
            return error_no_memory(error, "the rates of a level");
        const struct pipedream_rates at = { rates, rates + room, rates + 2 * room, rates + 3 * room };
        const double ns_per_byte = level->bytes_per_second ? 1e9 / (double)level->bytes_per_second : 0;
        for (uint32_t r = 1; r <= level->machines; r++) {
            at.share[r] = 1.0 / r;
            at.reduce[r] = 4.0 * (r - 1) * ns_per_byte / r / r;
            at.transfer[r] = 2 * ns_per_byte / r;
            at.first_reduce[r] = l == 1 ? at.reduce[r] / view->levels[0].machines : at.reduce[r];
        }
        view->rates[l] = at;
    }
    return true;
}

bool pipedream_view_create(struct pipedream_view *view, const struct bottleneck_request *request, bool of_order,
                           struct error *error)
{
    *view = (struct pipedream_view){ .request = request };
    if (pipedream_levels(view, request, error) && fill_graph(view, error)
        && (of_order ? fill_order(view, error) : fill_downsets(view, error))
        && (!view->downsets || fill_sums(view, error)) && fill_rates(view, error))
        return true;
    pipedream_view_clear(view);
    return false;
}

void pipedream_view_clear(struct pipedream_view *view)
{
    free(view->rates[0].share);
    free(view->rates[1].share);
    free(view->node_of);
    free(view->layer_of);
    free(view->edge_at);
    free(view->edges);
    downsets_free(view->downsets);
    free(view->work);
    free(view->parameters);
    free(view->activations);
    free(view->out);
    *view = (struct pipedream_view){ .request = NULL };
}
