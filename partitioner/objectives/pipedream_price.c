// PipeDream's prices (pipedream_price.h). With a second level of links, the stages are those of pipedream_server.c.
#include "partitioner/objectives/pipedream_price.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The steps that are allowed for the prices of parts on a server, about ten seconds: a stage for each pair of
// downsets, and each split of a server's machines.
#define MOST_SERVER_STEPS 1e10

// Units of work: some ten seconds.
#define USUAL_BUDGET 400000000

// --- nodes -----------------------------------------------------------------------

// Leaves out layers whose kind begins with `kind`. They are those that no layer feeds, or with `upwards` that no
// layer reads, among the layers that are not left out yet.
static void leave_out(const struct profile *profile, const struct edge *edges, size_t edge_count, const char *kind,
                      bool upwards, uint32_t *node_of)
{
    enum { ABOUT_TO_BE = 1 };
    for (uint32_t i = 0; i < profile->layer_count; i++) {
        bool is_end = strncmp(profile->layers[i].kind, kind, strlen(kind)) == 0;
        for (size_t e = 0; is_end && e < edge_count; e++)
            is_end = (upwards ? edges[e].from : edges[e].to) != i
                  || node_of[upwards ? edges[e].to : edges[e].from] == DOWNSETS_LEFT_OUT;
        node_of[i] = is_end ? ABOUT_TO_BE : node_of[i];
    }
    for (uint32_t i = 0; i < profile->layer_count; i++)
        node_of[i] = node_of[i] == ABOUT_TO_BE ? DOWNSETS_LEFT_OUT : node_of[i];
}

static bool list_nodes(const struct bottleneck_request *request, bool is_given, uint32_t **node_of, struct error *error)
{
    (void)is_given;
    const struct profile *profile = request->profile;
    size_t edge_count;
    struct edge *edges = downsets_edges(profile, NULL, &edge_count, error);
    uint32_t *nodes = calloc(profile->layer_count + 1, sizeof nodes[0]), count = 0;
    *node_of = nodes;
    if (edges && nodes) {
        leave_out(profile, edges, edge_count, "Input", false, nodes);
        leave_out(profile, edges, edge_count, "__getitem__", true, nodes);
    }
    for (size_t i = 0; nodes && i < profile->layer_count; i++)
        if (nodes[i] != DOWNSETS_LEFT_OUT)
            nodes[i] = count++;
    free(edges);
    return (edges && nodes) || error_no_memory(error, "the nodes of a graph");
}

// --- what is sent ----------------------------------------------------------------

// For each node, as rows of bits: the node itself, and its company. These are the layers below it that are read by a
// layer which is not below it.
static uint64_t *list_company(const struct downset_graph *graph, struct arrays *arrays)
{
    const size_t nodes = graph->node_count, words = (nodes + 63) / 64;
    uint64_t *below = arrays_add(arrays, nodes * words, sizeof below[0]);
    uint64_t *company = arrays_add(arrays, nodes * words, sizeof below[0]);
    if (arrays->failed)
        return NULL;
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
    return company;
}

// Whether no node of the downset reads this node of it.
static bool is_maximal(const struct downsets *downsets, size_t downset, size_t node)
{
    for (uint32_t i = downsets->reader_at[node]; i < downsets->reader_at[node + 1]; i++)
        if (downsets_holds(downsets, downset, downsets->readers[i]))
            return false;
    return true;
}

static void fill_out(struct pipedream *prices, struct graph_view *view)
{
    const struct downsets *downsets = view->downsets;
    const size_t words = downsets->words, nodes = view->graph.node_count;
    const uint64_t *company = list_company(&view->graph, &view->arrays);
    uint64_t *row = arrays_add(&view->arrays, words, sizeof row[0]);
    prices->out = arrays_add(&view->arrays, downsets->count, sizeof prices->out[0]);
    for (size_t d = 1; !view->arrays.failed && d < downsets->count; d++) {
        memset(row, 0, words * sizeof row[0]);
        for (size_t n = 0; n < nodes; n++)
            if (downsets_holds(downsets, d, n) && is_maximal(downsets, d, n))
                for (size_t w = 0; w < words; w++)
                    row[w] |= company[n * words + w];
        for (size_t n = 0; n < nodes; n++)
            if (row[n / 64] >> (n % 64) & 1)
                prices->out[d] += view->request->profile->layers[view->layers[n]].output_bytes;
    }
}

// --- prices ----------------------------------------------------------------------

static bool find_levels(struct pipedream *prices, struct error *error)
{
    const struct bottleneck_request *request = prices->view->request;
    const struct cluster *cluster = request->cluster;
    struct machines machines;
    if (!machines_find(&machines, request, 2, false, error))
        return false;
    const uint32_t all = machines.accelerators;
    const uint32_t server = cluster->level_count ? (uint32_t)cluster->levels[0].size : all;
    prices->memory_bytes = machines.memory_bytes;
    prices->level_count = all > server ? 2 : 1;
    if (prices->level_count == 2 && all % server != 0)
        return error_set(error, "%u machines are no whole number of servers of %u", all, server);
    prices->levels[0] = (struct pipedream_level){ .machines = prices->level_count == 2 ? server : all,
                                                  .bytes_per_second = machines.bytes_per_second };
    prices->levels[1] = (struct pipedream_level){ .machines = prices->level_count == 2 ? all / server : 1 };
    if (prices->level_count == 2)
        prices->levels[1].bytes_per_second = cluster->levels[1].bytes_per_second;
    return true;
}

static const struct pipedream_level *outer_level(const struct pipedream *prices)
{
    return &prices->levels[prices->level_count - 1];
}

// What a machine's share of the time, an all-reduce and a transfer cost, by replicas.
static bool fill_rates(struct pipedream *prices, struct arrays *arrays)
{
    for (size_t l = 0; l < prices->level_count; l++) {
        struct pipedream_level *level = &prices->levels[l];
        const size_t room = (size_t)level->machines + 1;
        level->share = arrays_add(arrays, 4 * room, sizeof level->share[0]);
        if (!level->share)
            return false;
        level->reduce = level->share + room;
        level->transfer = level->reduce + room;
        level->first_reduce = level->transfer + room;
        const double ns_per_byte = level->bytes_per_second ? 1e9 / (double)level->bytes_per_second : 0;
        for (uint32_t r = 1; r <= level->machines; r++) {
            level->share[r] = 1.0 / r;
            level->reduce[r] = 4.0 * (r - 1) * ns_per_byte / r / r;
            level->transfer[r] = 2 * ns_per_byte / r;
            level->first_reduce[r] = l == 1 ? level->reduce[r] / prices->levels[0].machines : level->reduce[r];
        }
    }
    const uint32_t machines = outer_level(prices)->machines;
    const uint32_t most = machines > prices->levels[0].machines ? machines : prices->levels[0].machines;
    prices->ways = arrays_add(arrays, machines, sizeof prices->ways[0]);
    prices->loads = arrays_add(arrays, most, sizeof prices->loads[0]);
    for (uint32_t r = 0; prices->ways && r < machines; r++)
        prices->ways[r].steps = r + 1;
    return !arrays->failed;
}

static uint64_t work_of(const struct profile_layer *layer)
{
    return layer->forward_ns + layer->backward_ns;
}

static uint64_t parameters_of(const struct profile_layer *layer)
{
    return layer->parameter_bytes;
}

static uint64_t output_of(const struct profile_layer *layer)
{
    return layer->output_bytes;
}

static bool fill_sums(struct pipedream *prices, struct graph_view *view)
{
    prices->work = graph_view_sum_of(view, work_of);
    prices->parameters = graph_view_sum_of(view, parameters_of);
    prices->activations = graph_view_sum_of(view, output_of);
    if (view->request->counts_activations)
        fill_out(prices, view);
    return !view->arrays.failed;
}

static void clear(void *self)
{
    struct pipedream *prices = self;
    if (prices->server)
        pipedream_server_clear(prices->server);
}

// The stages within servers, unless they are those of a given plan.
static bool fill_server(struct pipedream *prices, struct graph_view *view, struct error *error)
{
    const double downsets = (double)view->downsets->count, machines = prices->levels[0].machines;
    if (downsets * downsets * machines * machines / 4 > MOST_SERVER_STEPS)
        return error_set(error, "servers of %u machines are too large to be planned for %zu layers",
                         prices->levels[0].machines, view->graph.node_count);
    prices->server = pipedream_server_create(prices, &view->arrays, error);
    return prices->server != NULL;
}

static bool fill(void *self, struct graph_view *view, const struct bottleneck_result *given, struct error *error)
{
    struct pipedream *prices = self;
    prices->view = view;
    return find_levels(prices, error) && fill_rates(prices, &view->arrays) && fill_sums(prices, view)
        && (given || prices->level_count == 1 || fill_server(prices, view, error));
}

// Compute and all-reduce grow with a stage. Over r machines their sum rises to a maximum before r = 2 and then
// falls. So of all numbers of replicas, one machine or all machines have the least.
static double price(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    const struct pipedream *prices = self;
    const size_t level = prices->level_count - 1;
    const struct pipedream_level *here = &prices->levels[level];
    const uint32_t machines = prices->view->request->is_straight ? 1 : here->machines;
    const double work = (double)(prices->work[outer] - prices->work[inner]);
    const double alone = prices->server ? work / prices->levels[0].machines : work;
    const double parameters = (double)(prices->parameters[outer] - prices->parameters[inner]);
    const double together = alone * here->share[machines] + parameters * here->first_reduce[machines];
    const double floor = alone < together ? alone : together;
    if (!(floor < below))
        return floor;
    const double time = prices->server ? pipedream_server_load(prices->server, inner, outer, below) : work;
    pipedream_loads(prices, level, inner == 0, inner, outer, most < machines ? most : machines, time, loads);
    return floor;
}

static double heed_memory(void *self, uint32_t inner, uint32_t outer, size_t way, uint32_t later, double load,
                          double below)
{
    (void)below;
    return pipedream_fits(self, inner, outer, (uint32_t)way + 1, later) ? load : INFINITY;
}

static void ask(void *self, struct minimax_problem *problem)
{
    const struct pipedream *prices = self;
    const struct bottleneck_request *request = prices->view->request;
    problem->ways.list = prices->ways;
    problem->ways.most_steps = outer_level(prices)->machines;
    problem->ways.count = request->is_straight ? 1 : problem->ways.most_steps;
    problem->ways.takes_all_steps = !request->may_use_fewer;
    problem->work = prices->work;
    problem->ways.step_speed = prices->server ? prices->levels[0].machines : 1;
    problem->loads = price;
    problem->refine = request->heed_memory ? heed_memory : NULL;
    problem->budget = request->budget ? request->budget : USUAL_BUDGET;
}

// --- the answer ------------------------------------------------------------------

static size_t list_stages(void *self, const struct minimax *found, struct found_stage *stages)
{
    const struct pipedream *prices = self;
    size_t count = 0;
    uint32_t inner = 0;
    for (uint32_t p = 0; p < found->stage_count; p++) {
        const uint32_t outer = found->stages[p].downset, times = found->stages[p].way + 1;
        size_t added = 1;
        stages[count] = (struct found_stage){ outer, { .replicas = 1 } };
        if (prices->server)  // its values are found again with a `below` that is a little larger
            added = pipedream_server_stages(prices->server, inner, outer, found->value * (1 + 0x1p-40) + DBL_MIN,
                                            &stages[count]);
        for (; added > 0; added--, count++) {
            struct bottleneck_stage *stage = &stages[count].stage;
            stage->replicas *= times;
            stage->group = 1;
            stage->part = prices->server ? p : (uint32_t)count;
            stage->servers = prices->server ? times : 1;
        }
        inner = outer;
    }
    return count;
}

static void refuse(void *self, struct error *error)
{
    const struct pipedream *prices = self;
    const struct bottleneck_request *request = prices->view->request;
    const uint32_t machines = prices->levels[0].machines * prices->levels[1].machines;
    const char *fewer = request->may_use_fewer ? "" : "; fewer were not asked for";
    if (request->heed_memory)
        error_set_kind(error, ERROR_ANSWER, "no stages on %u machines pass PipeDream's memory check%s", machines,
                       fewer);
    else
        error_set_kind(error, ERROR_ANSWER, "the %zu layers cannot be put on all of %u machines%s",
                       request->profile->layer_count, machines, fewer);
}

// --- a given plan ----------------------------------------------------------------

static bool check_replicas(const struct pipedream *prices, const struct bottleneck_result *plan, struct error *error)
{
    const uint32_t machines = prices->levels[0].machines * prices->levels[1].machines;
    uint64_t used = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct bottleneck_stage *stage = &plan->stages[s];
        if (prices->view->request->is_straight && stage->replicas > 1)
            return error_set(error, "stage %zu has %u replicas, but none were asked for", s, stage->replicas);
        if (prices->level_count == 2 && (stage->servers == 0 || stage->replicas % stage->servers != 0))
            return error_set(error, "stage %zu has %u replicas, which cannot be alike on %u servers; the model prices"
                             " as many on each", s, stage->replicas, stage->servers);
        used += stage->replicas;
    }
    return used <= machines || error_set(error, "the stages take %llu machines of %u", (unsigned long long)used,
                                         machines);
}

static bool check_memory(const struct pipedream *prices, uint32_t stage, uint32_t inner, uint32_t outer,
                         uint32_t replicas, uint32_t later, struct error *error)
{
    if (pipedream_fits(prices, inner, outer, replicas, later))
        return true;
    const uint64_t bytes = prices->activations[outer] - prices->activations[inner] + prices->parameters[outer]
                         - prices->parameters[inner];
    return error_set_kind(error, ERROR_ANSWER, "stage %u keeps %u times %llu bytes by PipeDream's rule, and has %llu",
                          stage, (later + replicas - 1) / replicas, (unsigned long long)bytes,
                          (unsigned long long)prices->memory_bytes);
}

// Stages [first, end) are one part on some servers; the parts after it are on `later` servers.
static bool price_part(struct pipedream *prices, struct bottleneck_stage *stages, const uint32_t *ends, uint32_t first,
                       uint32_t end, uint32_t later, struct error *error)
{
    const bool has_servers = prices->level_count == 2;
    const uint32_t servers = has_servers ? stages[first].servers : 1;
    uint32_t machines = 0;
    for (uint32_t s = end; s-- > first;) {
        const uint32_t replicas = stages[s].replicas / servers, inner = ends[s], outer = ends[s + 1];
        if (!check_memory(prices, s, inner, outer, replicas, has_servers ? machines : later, error))
            return false;
        machines += replicas;
        if (machines > prices->levels[0].machines)
            return error_set(error, "stages %u to %u are on %u machines of a server, which has %u", first, end - 1,
                             machines, prices->levels[0].machines);
        pipedream_loads(prices, 0, s == first && (has_servers || s == 0), inner, outer, replicas,
                        (double)(prices->work[outer] - prices->work[inner]), prices->loads);
        stages[s].load_ns = prices->loads[replicas - 1];
        if (!has_servers)
            continue;
        pipedream_loads(prices, 1, first == 0, ends[first], ends[end], servers, stages[s].load_ns, prices->loads);
        stages[s].load_ns = prices->loads[servers - 1];
    }
    return !has_servers || check_memory(prices, first, ends[first], ends[end], servers, later, error);
}

static bool value(void *self, struct bottleneck_result *plan, const uint32_t *ends, struct error *error)
{
    struct pipedream *prices = self;
    const bool has_servers = prices->level_count == 2;
    struct bottleneck_stage *stages = plan->stages;
    uint32_t later = 0;
    if (!check_replicas(prices, plan, error))
        return false;
    for (uint32_t end = (uint32_t)plan->stage_count, first; end > 0; end = first) {
        first = end - 1;
        while (has_servers && first > 0 && stages[first - 1].part == stages[first].part)
            first--;
        if (has_servers && later + stages[first].servers > prices->levels[1].machines)
            return error_set(error, "the stages take more than %u servers", prices->levels[1].machines);
        if (!price_part(prices, stages, ends, first, end, later, error))
            return false;
        later += has_servers ? stages[first].servers : stages[first].replicas;
    }
    return true;
}

const struct objective pipedream_objective = { .nodes = list_nodes, .bytes = sizeof(struct pipedream), .fill = fill,
                                               .clear = clear, .ask = ask, .stages = list_stages, .refuse = refuse,
                                               .value = value };
