#include "partitioner/orders/order_arranged.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/arrangement/arrangement_async.h"
#include "partitioner/arrangement/arrangement_floor.h"
#include "partitioner/orders/order_graph.h"

_Static_assert((int)ARRANGEMENT_PRICES == (int)ORDER_PRICES, "all prices are summed");

// A graph as the bounds of arrangements see layers.
struct places {
    struct order_graph *graph;
    struct arrangement_bounds bounds;
    struct arrangement_names names;
    uint32_t *by_work;  // the graph's downsets, or groups of them
    struct arrangement_sums sums;
};

// --- the graph ------------------------------------------------------------------------------

// As it is, if it is small; else with layers that take no time put to others, and in groups.
static struct order_graph *make_graph(const struct search_request *request, uint32_t most, struct error *error)
{
    enum { MOST_DOWNSETS = 500000 };
    bool too_many;
    struct order_graph_request of_graph = { request->profile, &request->holding, request->holding.tied_apart, false,
                                            most };
    struct order_graph *graph = order_graph_create(&of_graph, &too_many, error);
    if (graph || !too_many)
        return graph;
    of_graph.reduce = true;
    of_graph.most_downsets = MOST_DOWNSETS;
    graph = order_graph_create(&of_graph, &too_many, error);
    if (graph && graph->downset_count > most && !order_graph_coarsen(graph, most, error)) {
        order_graph_free(graph);
        return NULL;
    }
    return graph;
}

struct weighed {
    uint64_t work;
    uint32_t at;
};

static int by_work(const void *left, const void *right)
{
    const struct weighed *a = left, *b = right;
    if (a->work != b->work)
        return a->work < b->work ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool sort_downsets(struct places *places)
{
    const struct order_graph *graph = places->graph;
    const size_t count = graph->downset_count;
    struct weighed *all = calloc(count, sizeof all[0]);
    places->by_work = calloc(count, sizeof places->by_work[0]);
    const bool good = all && places->by_work;
    for (uint32_t d = 0; good && d < count; d++)
        all[d] = (struct weighed){ graph->sums[SUM_FORWARD][d] + graph->sums[SUM_BACKWARD][d], d };
    if (good && graph->downsets)  // groups stand by work, and what they have at least is not their work
        qsort(all, count, sizeof all[0], by_work);
    for (uint32_t i = 0; good && i < count; i++)
        places->by_work[i] = all[i].at;
    free(all);
    return good;
}

// --- the places -----------------------------------------------------------------------------

// What the downsets up to each have at most, and those from it on at least: a stage from one place to a later one then
// has no less than any between two such downsets, and no more if it is made longer.
static bool total(const struct places *places, unsigned sum, uint64_t **least, uint64_t **most)
{
    const struct order_graph *graph = places->graph;
    const size_t count = graph->downset_count;
    *least = calloc(count, sizeof **least);
    *most = calloc(count, sizeof **most);
    if (!*least || !*most)
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint32_t d = places->by_work[i];
        const uint64_t own = graph->downsets ? graph->sums[sum][d] : graph->most[sum][d];
        (*most)[i] = i > 0 && (*most)[i - 1] > own ? (*most)[i - 1] : own;
    }
    for (size_t i = count; i-- > 0;) {
        const uint64_t own = graph->sums[sum][places->by_work[i]];
        (*least)[i] = i + 1 < count && (*least)[i + 1] < own ? (*least)[i + 1] : own;
    }
    return true;
}

static bool total_all(struct places *places)
{
    struct totals *of = &places->bounds.of[0];
    const size_t count = places->graph->downset_count;
    const bool good = total(places, SUM_FORWARD, &of->forward, &of->most_forward)
                   && total(places, SUM_BACKWARD, &of->backward, &of->most_backward)
                   && total(places, SUM_WEIGHTS, &of->weights, &of->most_weights);
    if (good && !places->bounds.has_backward) {
        memset(of->backward, 0, count * sizeof of->backward[0]);
        memset(of->most_backward, 0, count * sizeof of->most_backward[0]);
    }
    places->bounds.least = *of;
    return good;
}

// Windows and hosts hold less of a stage than its sums.
static bool sum_memory(struct places *places)
{
    const struct holding *holding = &places->bounds.request->holding;
    struct arrangement_sums *sums = &places->sums;
    if (holding->window > 0 || holding_uses_host(holding))
        return true;
    *sums = (struct arrangement_sums){ .holding = holding };
    bool good = total(places, SUM_WEIGHTS, &sums->weights.least, &sums->weights.most)
             && total(places, SUM_OPTIMIZER, &sums->optimizer.least, &sums->optimizer.most)
             && total(places, SUM_SAVED, &sums->saved.least, &sums->saved.most);
    for (unsigned k = 0; good && k < ARRANGEMENT_PRICES; k++) {
        sums->price[k] = places->graph->price[k];
        good = total(places, SUM_PRICES + k, &sums->cost[k].least, &sums->cost[k].most);
    }
    places->bounds.sums = sums;
    return good;
}

static bool price_ways(struct places *places)
{
    struct arrangement_bounds *bounds = &places->bounds;
    const struct cluster *cluster = bounds->request->cluster;
    const size_t count = places->graph->downset_count;
    bounds->can_cut = calloc(count, sizeof bounds->can_cut[0]);
    bounds->way = calloc((cluster->level_count + 1) * count, sizeof bounds->way[0]);
    if (!bounds->can_cut || !bounds->way)
        return false;
    memset(bounds->can_cut, true, count * sizeof bounds->can_cut[0]);
    for (size_t level = 0; level < cluster->level_count; level++)
        for (size_t i = 1; i + 1 < count; i++)
            bounds->way[level * count + i] =
                transfer_ns(places->graph->cut[places->by_work[i]], cluster->levels[level].bytes_per_second,
                            cluster->levels[level].latency_ns);
    return true;
}

// How F and B of layers compare, whatever the order.
static bool see_shares(struct places *places)
{
    const struct profile *profile = places->bounds.request->profile;
    struct totals own = { 0 };
    const bool good = totals_fill(profile, places->bounds.has_backward, true, &own);
    if (good)
        places->bounds.shares = shares_of(&own, (uint32_t)profile->layer_count);
    totals_clear(&own);
    return good;
}

static bool fill(struct places *places, struct error *error)
{
    const struct search_request *request = places->bounds.request;
    struct arrangement_bounds *bounds = &places->bounds;
    bounds->generator = generator_find(request->schedule, error);
    if (!bounds->generator || !arrangement_names_read(request, &places->names, error))
        return false;
    bounds->names = &places->names;
    bounds->of_count = 1;
    bounds->layers = (uint32_t)places->graph->downset_count - 1;
    bounds->may_be_empty = places->graph->is_reduced;
    bounds->are_groups = true;
    bounds->has_backward = strcmp(request->schedule, "forward-only") != 0;
    bounds->is_coarse = arrangement_is_coarse(bounds->layers, request->ranks);
    bounds->until_ns = request->deadline_ns ? clock_now_ns() + request->deadline_ns : 0;
    return (sort_downsets(places) && total_all(places) && sum_memory(places) && price_ways(places)
            && see_shares(places))
        || error_no_memory(error, "the bounds of a plan");
}

static void clear_sum(struct arrangement_sum *sum)
{
    free(sum->least);
    free(sum->most);
}

static void clear(struct places *places)
{
    struct arrangement_sums *sums = &places->sums;
    clear_sum(&sums->weights);
    clear_sum(&sums->optimizer);
    clear_sum(&sums->saved);
    for (unsigned k = 0; k < ARRANGEMENT_PRICES; k++)
        clear_sum(&sums->cost[k]);
    totals_clear(&places->bounds.of[0]);
    free(places->bounds.can_cut);
    free(places->bounds.way);
    free(places->by_work);
    order_graph_free(places->graph);
}

// Without a flush more messages on links that channels share would make less of a bound, and how many there are at most
// is not known of a graph.
static bool raise_bound(const struct places *places, uint64_t *bound_ns, uint64_t *work, struct error *error)
{
    const struct arrangement_bounds *bounds = &places->bounds;
    struct arrangement reached = { 0 };
    uint64_t own_ns = 0;
    if (*bound_ns == 0)
        return true;
    if (bounds->generator->weights == WEIGHTS_FLUSH) {
        const bool good = arrangement_floor(bounds, bound_ns, &reached, work, error);
        arrangement_clear(&reached);
        return good;
    }
    if (bounds->request->cluster->level_count > 1)
        return true;
    const bool good = arrangement_async_floor(bounds, &own_ns, error);
    *bound_ns = own_ns > *bound_ns ? own_ns : *bound_ns;
    return good;
}

bool order_arranged_bound(const struct search_request *request, uint32_t most_places, uint64_t *bound_ns,
                          uint64_t *work, struct error *error)
{
    struct places places = { .graph = make_graph(request, most_places, error), .bounds.request = request };
    if (!places.graph)
        return error->kind == ERROR_NONE;
    const bool good = fill(&places, error) && raise_bound(&places, bound_ns, work, error);
    clear(&places);
    return good;
}
