// The prices of dnn-partitioning (max_load.h). The transfers of a stage are found from its two ends: all that leaves
// either end, except what leaves both, which comes from before the stage.
//
//     before | inner  stage  outer | behind
//       a ------------->                         leaves inner: received
//                       b ------------->         leaves outer: sent
//       c ----------------------------->         leaves both: neither,
//       d -------------> ... ---------->         unless the stage reads it too: received
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/search/layer_groups.h"
#include "partitioner/objectives/max_load.h"

struct prices {
    const struct graph_view *view;
    struct machines machines;
    uint64_t *cost_ns;       // of each layer's tensor, if it crosses; 0 if no other node reads it
    uint64_t *readers;       // of each layer, the nodes that read it: a row of bits
    uint64_t *cut_ns;        // of each downset: what leaves it
    uint64_t *work, *host_work, *not_on_host, *bytes;  // of each downset
    double host_speed;       // the most of an accelerator's work that a CPU does in a ns
    uint64_t largest_ns;     // the largest, over layers, of the least time that a layer takes
    uint32_t *leaving;       // the layers whose tensors leave the outer end of the current stage
    size_t leaving_count;
    uint32_t outer;          // that end; 0: nothing is listed yet
};

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

static uint64_t work_of(const struct profile_layer *way)
{
    return way ? way->forward_ns + way->backward_ns : 0;
}

static uint64_t bytes_of(const struct profile_layer *layer)
{
    return layer->parameter_bytes + layer->saved_bytes;
}

// --- nodes ----------------------------------------------------------------------------

// Finds layers that take no time anywhere, and have no bytes either, unless one machine holds all bytes anyway.
static void find_free(const struct profile *profile, const struct machines *machines, bool *is_free)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        bytes += bytes_of(&profile->layers[i]);
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i], *way = max_load_on_cpu(layer);
        is_free[i] = work_of(layer) == 0 && (machines->cpus == 0 || (way && work_of(way) == 0))
                  && (bytes <= machines->memory_bytes || bytes_of(layer) == 0);
    }
}

// A given plan may separate what a search keeps together.
static bool list_nodes(const struct bottleneck_request *request, bool is_given, uint32_t **node_of, struct error *error)
{
    struct machines machines;
    if (is_given)
        return true;
    if (!machines_find(&machines, request, 1, false, error))
        return false;
    bool *is_free = calloc(request->profile->layer_count, sizeof is_free[0]);
    if (!is_free)
        return error_no_memory(error, "the layers of a graph");
    find_free(request->profile, &machines, is_free);
    *node_of = layer_groups(request->profile, true, is_free, error);
    free(is_free);
    return *node_of != NULL;
}

// --- what layers and downsets cost ----------------------------------------------------

static bool add_edge(struct prices *prices, struct edge edge, struct error *error)
{
    const struct graph_view *view = prices->view;
    const struct profile *profile = view->request->profile;
    const uint32_t reader = view->node_of[edge.to];
    if (view->node_of[edge.from] == reader)
        return true;
    prices->readers[edge.from * view->downsets->words + reader / 64] |= (uint64_t)1 << (reader % 64);
    prices->cost_ns[edge.from] = max_load_crossings(profile)
        * transfer_ns(profile->layers[edge.from].output_bytes, prices->machines.bytes_per_second,
                      prices->machines.latency_ns);
    return prices->cost_ns[edge.from] <= JSON_MAX
        || error_set(error, "layer \"%s\" hands on more than can be sent in 2^53 ns", profile->layers[edge.from].name);
}

static const uint64_t *readers_of(const struct prices *prices, uint32_t layer)
{
    return prices->readers + layer * prices->view->downsets->words;
}

static bool leaves(const struct prices *prices, size_t downset, uint32_t layer)
{
    const struct downsets *downsets = prices->view->downsets;
    return graph_view_holds(prices->view, downset, layer)
        && !downsets_within(readers_of(prices, layer), downsets_set(downsets, downset), downsets->words);
}

// Fills in what leaves each downset. The tensors are taken one by one, so that a tensor that no layer outside reads
// costs no more than a look.
static bool fill_cuts(struct prices *prices, struct graph_view *view, struct error *error)
{
    const struct profile *profile = view->request->profile;
    const size_t layers = profile->layer_count, words = view->downsets->words, count = view->downsets->count;
    prices->cost_ns = arrays_add(&view->arrays, layers, sizeof prices->cost_ns[0]);
    prices->readers = arrays_add(&view->arrays, layers * words, sizeof prices->readers[0]);
    prices->leaving = arrays_add(&view->arrays, layers, sizeof prices->leaving[0]);
    prices->cut_ns = arrays_add(&view->arrays, count, sizeof prices->cut_ns[0]);
    size_t edge_count;
    const struct edge *edges = arrays_keep(&view->arrays, downsets_edges(profile, NULL, &edge_count, error));
    if (view->arrays.failed)
        return false;
    for (size_t e = 0; e < edge_count; e++)
        if (!add_edge(prices, edges[e], error))
            return false;
    for (uint32_t i = 0; i < layers; i++)
        for (size_t d = 1; prices->cost_ns[i] > 0 && d < count; d++)
            if (leaves(prices, d, i))
                prices->cut_ns[d] += prices->cost_ns[i];
    return true;
}

static uint64_t host_work_of(const struct profile_layer *layer)
{
    return work_of(max_load_on_cpu(layer));
}

static uint64_t is_not_on_host(const struct profile_layer *layer)
{
    return max_load_on_cpu(layer) == NULL;
}

static bool fill_sums(struct prices *prices, struct graph_view *view)
{
    const struct profile *profile = view->request->profile;
    prices->host_speed = 0x1p-60;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const struct profile_layer *way = prices->machines.cpus > 0 ? max_load_on_cpu(layer) : NULL;
        const uint64_t work = work_of(layer), host = work_of(way);
        if (way && work > 0)
            prices->host_speed = fmax(prices->host_speed, host > 0 ? (double)work / (double)host : INFINITY);
        const uint64_t least = way && host < work ? host : work;
        prices->largest_ns = least > prices->largest_ns ? least : prices->largest_ns;
    }
    prices->work = graph_view_sum_of(view, work_of);
    prices->bytes = graph_view_sum_of(view, bytes_of);
    prices->host_work = graph_view_sum_of(view, host_work_of);
    prices->not_on_host = graph_view_sum_of(view, is_not_on_host);
    return !view->arrays.failed;
}

static bool fill(void *self, struct graph_view *view, const struct bottleneck_result *given, struct error *error)
{
    struct prices *prices = self;
    (void)given;
    prices->view = view;
    return machines_find(&prices->machines, view->request, 1, false, error) && fill_cuts(prices, view, error)
        && fill_sums(prices, view);
}

// --- stages ---------------------------------------------------------------------------

static void list_leaving(struct prices *prices, uint32_t outer)
{
    prices->outer = outer;
    prices->leaving_count = 0;
    for (uint32_t i = 0; i < prices->view->request->profile->layer_count; i++)
        if (prices->cost_ns[i] > 0 && leaves(prices, outer, i))
            prices->leaving[prices->leaving_count++] = i;
}

static uint64_t transfers(struct prices *prices, uint32_t inner, uint32_t outer)
{
    const struct downsets *downsets = prices->view->downsets;
    const uint64_t *before = downsets_set(downsets, inner), *after = downsets_set(downsets, outer);
    uint64_t sum = prices->cut_ns[inner] + prices->cut_ns[outer];
    if (prices->outer != outer)
        list_leaving(prices, outer);
    for (size_t l = 0; l < prices->leaving_count; l++) {
        const uint32_t layer = prices->leaving[l];
        const uint64_t *readers = readers_of(prices, layer);
        uint64_t inside = 0;
        if (!graph_view_holds(prices->view, inner, layer))
            continue;
        for (size_t w = 0; w < downsets->words; w++)
            inside |= readers[w] & after[w] & ~before[w];
        sum -= inside ? prices->cost_ns[layer] : 2 * prices->cost_ns[layer];
    }
    return sum;
}

static uint64_t bytes_between(const struct prices *prices, uint32_t inner, uint32_t outer)
{
    return prices->bytes[outer] - prices->bytes[inner];
}

static double price_accelerator(struct prices *prices, uint32_t inner, uint32_t outer)
{
    return (double)(prices->work[outer] - prices->work[inner] + transfers(prices, inner, outer));
}

static double price_cpu(const struct prices *prices, uint32_t inner, uint32_t outer)
{
    return prices->not_on_host[outer] == prices->not_on_host[inner]
             ? (double)(prices->host_work[outer] - prices->host_work[inner]) : INFINITY;
}

// The ways: on an accelerator, if there is one, and on a CPU. Both take longer for more layers, apart from
// transfers.
enum { ON_CPU, ON_ACCELERATOR, WAYS };

static double price(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    struct prices *prices = self;
    const double work = (double)(prices->work[outer] - prices->work[inner]);
    const double host = (double)(prices->host_work[outer] - prices->host_work[inner]);
    (void)most;
    loads[ON_CPU] = price_cpu(prices, inner, outer);
    if (prices->machines.accelerators > 0)
        loads[ON_ACCELERATOR] = !(work < below) || bytes_between(prices, inner, outer) > prices->machines.memory_bytes
                                  ? INFINITY : price_accelerator(prices, inner, outer);
    return prices->machines.cpus > 0 && host < work ? host : work;
}

static void ask(void *self, struct minimax_problem *problem)
{
    static const struct minimax_way ways[WAYS] = { [ON_CPU] = { .steps = 1 }, [ON_ACCELERATOR] = { .cost = 1 } };
    const struct prices *prices = self;
    const struct machines *machines = &prices->machines;
    problem->ways.list = ways;
    problem->ways.count = machines->accelerators > 0 ? WAYS : ON_CPU + 1;
    problem->ways.most_steps = machines->cpus;
    problem->ways.most_cost = machines->accelerators;
    problem->work = prices->work;
    problem->lower_bound = (double)prices->largest_ns;
    problem->ways.step_speed = prices->host_speed;
    problem->ways.cost_speed = 1;
    problem->loads = price;
}

static size_t list_stages(void *self, const struct minimax *found, struct found_stage *stages)
{
    (void)self;
    for (uint32_t s = 0; s < found->stage_count; s++)
        stages[s] = (struct found_stage){ found->stages[s].downset,
                                          { .replicas = 1, .group = 1, .part = s, .servers = 1,
                                            .on_cpu = found->stages[s].way == ON_CPU } };
    return found->stage_count;
}

static bool choose(void *self, const struct found_stage *stages, struct bottleneck_result *result, struct error *error)
{
    (void)stages;
    (void)error;
    const struct profile *profile = ((const struct prices *)self)->view->request->profile;
    for (size_t s = 0; s < result->stage_count; s++)
        for (uint32_t position = result->stages[s].first; result->stages[s].on_cpu && position < result->stages[s].end;
             position++) {
            const struct profile_layer *layer = &profile->layers[result->order[position]];
            uint32_t *variant = &result->variant[result->order[position]];
            while (&layer->variants[(*variant)++].layer != max_load_on_cpu(layer))
                ;
        }
    return true;
}

static void refuse(void *self, struct error *error)
{
    const struct prices *prices = self;
    const struct profile *profile = prices->view->request->profile;
    const struct machines *machines = &prices->machines;
    const uint64_t memory = machines->accelerators ? machines->memory_bytes : 0;
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    bytes_format(memory, has);
    for (size_t i = 0; i < profile->layer_count && error->kind == ERROR_NONE; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        if ((bytes_of(layer) > memory || machines->accelerators == 0)
            && (machines->cpus == 0 || !max_load_on_cpu(layer)))
            error_set_kind(error, ERROR_ANSWER, "layer \"%s\" alone holds %s; a machine has %s", layer->name,
                           bytes_format(bytes_of(layer), holds), has);
    }
    error_set_kind(error, ERROR_ANSWER, "no cut into %u stages fits: the layers hold %s in all, a machine %s",
                   machines->accelerators + machines->cpus,
                   bytes_format(prices->bytes[prices->view->downsets->count - 1], holds), has);
}

// --- a given plan -----------------------------------------------------------------------

static bool price_stage(struct prices *prices, const struct bottleneck_result *plan, uint32_t s, uint32_t inner,
                        uint32_t outer, struct error *error)
{
    struct bottleneck_stage *stage = &plan->stages[s];
    const uint64_t bytes = bytes_between(prices, inner, outer);
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    if (stage->replicas != 1 || stage->group != 1)
        return error_set_kind(error, ERROR_ANSWER, "stage %u: max-load knows stages on one machine only", s);
    if (!stage->on_cpu && bytes > prices->machines.memory_bytes)
        return error_set_kind(error, ERROR_ANSWER, "stage %u: its layers hold %s, its machine %s", s,
                              bytes_format(bytes, holds), bytes_format(prices->machines.memory_bytes, has));
    for (uint32_t position = stage->first; stage->on_cpu && position < stage->end; position++)
        if (!max_load_on_cpu(&prices->view->request->profile->layers[plan->order[position]]))
            return error_set_kind(error, ERROR_ANSWER, "stage %u: layer \"%s\" has no variant \"cpu\"", s,
                                  prices->view->request->profile->layers[plan->order[position]].name);
    stage->load_ns = stage->on_cpu ? price_cpu(prices, inner, outer) : price_accelerator(prices, inner, outer);
    return true;
}

static bool value(void *self, struct bottleneck_result *plan, const uint32_t *ends, struct error *error)
{
    struct prices *prices = self;
    uint32_t accelerators = 0, cpus = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        *(plan->stages[s].on_cpu ? &cpus : &accelerators) += 1;
        if (!price_stage(prices, plan, s, ends[s], ends[s + 1], error))
            return false;
    }
    if (accelerators <= prices->machines.accelerators && cpus <= prices->machines.cpus)
        return true;
    return error_set_kind(error, ERROR_ANSWER, "the plan takes %u accelerators and %u CPUs; there are %u and %u",
                          accelerators, cpus, prices->machines.accelerators, prices->machines.cpus);
}

const struct objective max_load_objective = { .nodes = list_nodes, .bytes = sizeof(struct prices), .fill = fill,
                                              .ask = ask, .stages = list_stages, .choose = choose, .refuse = refuse,
                                              .value = value };
