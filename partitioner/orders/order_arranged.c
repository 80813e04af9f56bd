#include "partitioner/orders/order_arranged.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/arrangement/arrangement_reach.h"
#include "partitioner/orders/order_graph.h"
#include "schedules/generators/generate.h"

typedef unsigned __int128 wide;

#define UNREACHED UINT64_MAX

enum { MOST_DOWNSETS = 500000 };

// A downset, or a group of them: the least and the most that one of them takes, of one micro-batch.
struct node {
    uint64_t forward[2], backward[2], weights[2];
    uint64_t way;         // of a message over the cut, there and back
    const uint64_t *set;  // of blocks; NULL: not known
};

struct whole_reach {
    const struct order_graph *graph;
    struct floor floor;                // of which only what paths need is known
    struct arrangement_bounds bounds;  // likewise
    struct node *nodes;                // by work, ascending
    uint32_t count, devices;
    uint64_t *front, *back;            // [used * count + node]: ways; UNREACHED
    bool knows_front, knows_back;
};

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// On the fastest device, rounded down.
static uint64_t scaled(const struct whole_reach *reach, uint64_t ns)
{
    return (uint64_t)((wide)ns * 1000 / reach->floor.speed);
}

// --- nodes --------------------------------------------------------------------------------

static uint64_t way_over(const struct search_request *request, uint64_t bytes)
{
    const struct cluster *cluster = request->cluster;
    uint64_t least = cluster->level_count == 0 ? 0 : UINT64_MAX;
    for (size_t i = 0; i < cluster->level_count; i++) {
        const uint64_t way = transfer_ns(bytes, cluster->levels[i].bytes_per_second, cluster->levels[i].latency_ns);
        least = way < least ? way : least;
    }
    return least;
}

static int by_work(const void *left, const void *right)
{
    const struct node *a = left, *b = right;
    const uint64_t of_a = a->forward[0] + a->backward[0], of_b = b->forward[0] + b->backward[0];
    if (of_a != of_b)
        return of_a < of_b ? -1 : 1;
    return (a->set > b->set) - (a->set < b->set);  // which stand by size
}

static void read_sum(const struct order_graph *graph, enum order_sum sum, size_t d, uint64_t ends[2])
{
    ends[0] = graph->sums[sum][d];
    ends[1] = graph->downsets ? ends[0] : graph->most[sum][d];
}

static bool read_nodes(struct whole_reach *reach, struct error *error)
{
    const struct order_graph *graph = reach->graph;
    const struct search_request *request = reach->bounds.request;
    const uint64_t trips = reach->bounds.has_backward ? 2 : 1;
    reach->count = (uint32_t)graph->downset_count;
    reach->nodes = calloc(reach->count, sizeof reach->nodes[0]);
    if (!reach->nodes)
        return error_no_memory(error, "the bounds of a plan");
    for (uint32_t d = 0; d < reach->count; d++) {
        struct node *node = &reach->nodes[d];
        read_sum(graph, SUM_FORWARD, d, node->forward);
        if (reach->bounds.has_backward)
            read_sum(graph, SUM_BACKWARD, d, node->backward);
        read_sum(graph, SUM_WEIGHTS, d, node->weights);
        node->way = trips * way_over(request, graph->cut[d]);
        node->set = graph->downsets ? downsets_set(graph->downsets, d) : NULL;
    }
    if (graph->downsets)  // groups stand by work
        qsort(reach->nodes, reach->count, sizeof reach->nodes[0], by_work);
    return true;
}

static bool is_within(const struct whole_reach *reach, uint32_t from, uint32_t to)
{
    const uint64_t *inner = reach->nodes[from].set, *outer = reach->nodes[to].set;
    return !inner || downsets_within(inner, outer, reach->graph->downsets->words);
}

// --- stages -------------------------------------------------------------------------------

static struct floor_times times_of(const struct whole_reach *reach, uint32_t from, uint32_t to)
{
    const struct node *a = &reach->nodes[from], *b = &reach->nodes[to], *all = &reach->nodes[reach->count - 1];
    return (struct floor_times){
        .forward = scaled(reach, difference(b->forward[0], a->forward[1])),
        .backward = scaled(reach, difference(b->backward[0], a->backward[1])),
        .forward_before = scaled(reach, a->forward[0]),
        .backward_before = scaled(reach, a->backward[0]),
        .behind = scaled(reach, all->forward[0] - b->forward[1] + all->backward[0] - b->backward[1]),
        .weights = difference(b->weights[0], a->weights[1]),
    };
}

// So many ranks it takes at least for each to do its part within the limit; more than there are: none do.
static uint32_t fewest_ranks(const struct whole_reach *reach, const struct floor_times *times)
{
    const uint64_t each = times->forward + times->backward, m = reach->bounds.request->micro_batches;
    const uint64_t room = difference(reach->floor.limit_ns, times->forward_before + times->backward_before);
    if (each == 0 || room / each >= m)
        return 1;
    const uint64_t own = room / each, ranks = own == 0 ? reach->devices + 1 : (m + own - 1) / own;
    return ranks > reach->devices ? reach->devices + 1 : (uint32_t)ranks;
}

// A stage between two nodes, seen from one side: `used` devices and these ways are on that side.
struct stage_of {
    uint32_t from, to, used;
    bool from_back;
    uint64_t near_ways;
};

static uint64_t far_ways_of(const struct whole_reach *reach, const struct stage_of *stage, uint32_t ranks)
{
    const uint32_t left = reach->devices - stage->used - ranks, at = stage->from_back ? stage->from : stage->to;
    const bool is_known = stage->from_back ? reach->knows_front : reach->knows_back;
    const bool is_end = at == 0 || at == reach->count - 1;
    if (!is_known)
        return is_end ? 0 : reach->nodes[at].way;
    return (stage->from_back ? reach->front : reach->back)[(size_t)left * reach->count + at];
}

// The fewest ranks that keep it within the limit; more than there are: none do.
static uint32_t ranks_for(struct whole_reach *reach, const struct stage_of *stage)
{
    const struct floor_times times = times_of(reach, stage->from, stage->to);
    const uint32_t left = reach->devices - stage->used;
    const uint32_t most = left < reach->floor.most_ranks ? left : reach->floor.most_ranks;
    struct place place = { 0 };
    for (place.ranks = fewest_ranks(reach, &times); place.ranks <= most; place.ranks++) {
        const uint64_t far = far_ways_of(reach, stage, place.ranks);
        if (far == UNREACHED)
            break;  // nor with fewer devices left
        const uint32_t behind = stage->from_back ? stage->used : left - place.ranks;
        place.in_ways = stage->from_back ? far : stage->near_ways;
        place.out_ways = stage->from_back ? stage->near_ways : far;
        place.counts = floor_counts(&reach->floor, place.ranks, place.ranks + behind);
        reach->floor.work++;
        if (floor_longest(&reach->floor, &times, &place) <= reach->floor.limit_ns)
            return place.ranks;
    }
    return reach->devices + 1;
}

// --- what can be reached --------------------------------------------------------------------

// Whether it is of use to go on from there. Seen from the front that is no better than with fewer devices and as little
// ways; from the back more devices behind a stage leave its ranks more micro-batches in flight.
static bool is_news(const struct whole_reach *reach, const uint64_t *side, bool from_back, uint32_t used, uint32_t at)
{
    const uint64_t ways = side[(size_t)used * reach->count + at];
    return ways != UNREACHED && (from_back || used == 0 || ways < side[(size_t)(used - 1) * reach->count + at]);
}

// Stages from one node on, to those with more, in order of work; back from it, to those with less.
static void step_from(struct whole_reach *reach, uint64_t *side, struct stage_of *stage)
{
    const uint32_t count = reach->count, at = stage->from_back ? stage->to : stage->from;
    const uint64_t ways = side[(size_t)stage->used * count + at];
    stage->near_ways = ways;
    for (uint32_t step = 1; stage->from_back ? step <= at : at + step < count; step++) {
        const uint32_t next = stage->from_back ? at - step : at + step;
        *(stage->from_back ? &stage->from : &stage->to) = next;
        const bool is_end = next == 0 || next == count - 1;
        const uint64_t after = ways + (is_end ? 0 : reach->nodes[next].way);
        if (stage->used == reach->devices || side[(size_t)(stage->used + 1) * count + next] <= after
            || !is_within(reach, stage->from, stage->to))
            continue;
        const struct floor_times times = times_of(reach, stage->from, stage->to);
        if (!stage->from_back && stage->used + fewest_ranks(reach, &times) > reach->devices)
            break;  // nor any with more work
        const uint32_t ranks = ranks_for(reach, stage);
        if (stage->used + ranks > reach->devices)
            continue;
        uint64_t *to = &side[(size_t)(stage->used + ranks) * count + next];
        *to = after < *to ? after : *to;
    }
}

static bool covers(struct whole_reach *reach, bool from_back)
{
    const uint32_t count = reach->count, begin = from_back ? count - 1 : 0;
    uint64_t *side = from_back ? reach->back : reach->front;
    memset(side, 0xff, ((size_t)reach->devices + 1) * count * sizeof side[0]);
    side[begin] = 0;
    for (uint32_t used = 0; used <= reach->devices; used++) {
        for (uint32_t d = 0; used > 0 && d < count; d++) {
            const uint64_t fewer = side[(size_t)(used - 1) * count + d];
            uint64_t *own = &side[(size_t)used * count + d];
            *own = fewer < *own ? fewer : *own;
        }
        for (uint32_t d = 0; d < count; d++) {
            struct stage_of stage = { .from = d, .to = d, .used = used, .from_back = from_back };
            if (is_news(reach, side, from_back, used, d))
                step_from(reach, side, &stage);
        }
    }
    *(from_back ? &reach->knows_back : &reach->knows_front) = true;
    return side[(size_t)reach->devices * count + (from_back ? 0 : count - 1)] != UNREACHED;
}

static bool is_possible(struct whole_reach *reach, uint64_t limit_ns)
{
    const struct node *all = &reach->nodes[reach->count - 1];
    reach->floor.limit_ns = limit_ns;
    reach->knows_front = reach->knows_back = false;
    return scaled(reach, all->forward[0] + all->backward[0]) <= limit_ns && covers(reach, true) && covers(reach, false);
}

// --- the bound ------------------------------------------------------------------------------

static bool is_over(const struct whole_reach *reach)
{
    const struct search_request *request = reach->bounds.request;
    return (request->interrupted && *request->interrupted) || floor_is_over(&reach->floor);
}

// To one part in so many, the largest limit that is known to be too low.
static uint64_t least_possible(struct whole_reach *reach, uint64_t low, uint64_t most_ns)
{
    enum { PRECISION = 1 << 10 };
    uint64_t step = low / 8 + 1, high = low;
    do {
        low = high;
        if (low == most_ns || is_over(reach))
            return low;
        high = step < most_ns - low ? low + step : most_ns;
        step *= 2;
    } while (!is_possible(reach, high - 1));
    while (high - low > low / PRECISION + 1 && !is_over(reach)) {
        const uint64_t middle = low + (high - low) / 2;
        if (is_possible(reach, middle - 1))
            high = middle;
        else
            low = middle;
    }
    return low;
}

static struct order_graph *make_graph(const struct search_request *request, uint32_t most_nodes, struct error *error)
{
    bool too_many;
    struct order_graph_request of_graph = { request->profile, &request->holding, request->holding.tied_apart, false,
                                            most_nodes };
    struct order_graph *graph = order_graph_create(&of_graph, &too_many, error);
    if (graph || !too_many)
        return graph;
    of_graph.reduce = true;
    of_graph.most_downsets = MOST_DOWNSETS;
    graph = order_graph_create(&of_graph, &too_many, error);
    if (graph && graph->downset_count > most_nodes && !order_graph_coarsen(graph, most_nodes, error)) {
        order_graph_free(graph);
        return NULL;
    }
    return graph;
}

static bool begin(struct whole_reach *reach, struct error *error)
{
    const struct search_request *request = reach->bounds.request;
    const bool only_one = !request->free.replicas && !request->replicas;
    const uint32_t most = request->ranks < request->micro_batches ? request->ranks : request->micro_batches;
    reach->devices = request->ranks;
    reach->bounds.until_ns = request->deadline_ns ? clock_now_ns() + request->deadline_ns : 0;
    reach->bounds.has_backward = strcmp(request->schedule, "forward-only") != 0;
    reach->floor = (struct floor){ .bounds = &reach->bounds, .in_permille = 500, .most_ranks = only_one ? 1 : most,
                                   .is_gpipe = strcmp(request->schedule, "gpipe") == 0 };
    for (size_t i = 0; i < request->cluster->device_count; i++)
        if (request->cluster->devices[i].speed_permille > reach->floor.speed)
            reach->floor.speed = request->cluster->devices[i].speed_permille;
    if (!read_nodes(reach, error))
        return false;
    const size_t cells = ((size_t)reach->devices + 1) * reach->count;
    reach->front = calloc(cells, sizeof reach->front[0]);
    reach->back = calloc(cells, sizeof reach->back[0]);
    return (reach->front && reach->back) || error_no_memory(error, "the bounds of a plan");
}

bool order_arranged_bound(const struct search_request *request, uint32_t most_nodes, uint64_t most_ns,
                          uint64_t *bound_ns, struct error *error)
{
    struct order_graph *graph = make_graph(request, most_nodes, error);
    if (!graph)
        return error->kind == ERROR_NONE;
    struct whole_reach reach = { .graph = graph, .bounds.request = request };
    const bool good = begin(&reach, error);
    if (good && *bound_ns < most_ns)
        *bound_ns = least_possible(&reach, *bound_ns, most_ns);
    free(reach.nodes);
    free(reach.front);
    free(reach.back);
    order_graph_free(graph);
    return good;
}
