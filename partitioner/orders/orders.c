#include "partitioner/orders/orders.h"

#include <stdlib.h>
#include <string.h>

#include "partitioner/predict.h"
#include "profiler/profile_reorder.h"

enum { GROUPS = 1000 };  // of downsets, in a coarse graph

bool orders_is_arranged(const struct search_request *request)
{
    return !search_is_free(request) && !request->replicas && !request->variants && !request->devices;
}

bool orders_is_plain(const struct search_request *request)
{
    return orders_is_arranged(request) && holding_is_plain(&request->holding);
}

// --- beginning and end ------------------------------------------------------------------

// Whether each link between neighbours carries the messages of one of them in one direction.
static bool links_are_unshared(const struct network *network)
{
    const uint32_t channels = 2 * (network->ranks - 1);
    for (uint32_t a = 0; a < channels; a++)
        for (uint32_t b = 0; b < a; b++)
            if (network->link_of[(size_t)((a + 1) / 2) * network->ranks + (a % 2 ? (a - 1) / 2 : a / 2 + 1)]
                == network->link_of[(size_t)((b + 1) / 2) * network->ranks + (b % 2 ? (b - 1) / 2 : b / 2 + 1)])
                return false;
    return true;
}

static bool has_same_order(const struct orders *orders, uint32_t micro_batches, bool *same, struct error *error)
{
    const struct search_request *request = &orders->of_together;
    struct pattern longer = { 0 };
    struct schedule *order =
        schedule_generate(request->schedule, request->ranks, request->chunks, micro_batches, error);
    const bool good = order && pattern_read(order, &longer, error);
    *same = good && longer.is_known
         && memcmp(longer.warm, orders->pattern.warm, orders->pattern.ranks * sizeof longer.warm[0]) == 0;
    pattern_clear(&longer);
    schedule_free(order);
    return good;
}

// The bounds of an asynchronous run hold where it goes on as it began.
static bool read_pattern(struct orders *orders, struct error *error)
{
    const struct coupled *coupled = orders->coupled;
    const uint32_t m = orders->request->micro_batches;
    struct pattern *pattern = &orders->pattern;
    bool same[2];
    if (!pattern_read(coupled->order, pattern, error))
        return false;
    if (coupled->flushes || !pattern->is_known)
        return true;
    if (!has_same_order(orders, 2 * m, &same[0], error) || !has_same_order(orders, 3 * m, &same[1], error))
        return false;
    pattern->is_known = same[0] && same[1] && links_are_unshared(coupled->network) && pattern_continue(pattern);
    return true;
}

static bool read_schedule(struct orders *orders, struct error *error)
{
    const struct coupled *coupled = orders->coupled;
    const struct placement *placement = coupled->placement;
    orders->stages = coupled->stages;
    orders->busiest = calloc(orders->stages, sizeof orders->busiest[0]);
    if (!orders->busiest)
        return error_no_memory(error, "a search");
    for (uint32_t at = 0; at < placement->stage_at[coupled->ranks]; at++) {
        const struct coupled_work *work = &coupled->work_of[at];
        struct coupled_work *busiest = &orders->busiest[work->stage];
        if (work->forwards > busiest->forwards || busiest->forwards == 0)
            *busiest = *work;
    }
    orders->least = orders->busiest[0];
    for (uint32_t s = 0; s < orders->stages; s++) {
        const struct coupled_work *own = &orders->busiest[s];
        struct coupled_work *least = &orders->least;
        least->forwards = own->forwards < least->forwards ? own->forwards : least->forwards;
        least->backwards = own->backwards < least->backwards ? own->backwards : least->backwards;
        least->inputs = own->inputs < least->inputs ? own->inputs : least->inputs;
        least->weights = own->weights < least->weights ? own->weights : least->weights;
        orders->speed = coupled->speed[s] > orders->speed ? coupled->speed[s] : orders->speed;
    }
    for (uint32_t r = 0; r < coupled->ranks; r++)
        orders->shares_ranks |= placement->stage_at[r + 1] - placement->stage_at[r] > 1;
    if (!read_pattern(orders, error))
        return false;
    orders->has_bounds = coupled->flushes || orders->pattern.is_known;
    if (orders->pattern.goes_on)  // what its bounds count
        orders->least =
            (struct coupled_work){ .forwards = orders->pattern.counted, .backwards = orders->pattern.counted };
    orders->room = pattern_room_create(coupled->ranks, orders->request->micro_batches, error);
    return orders->room != NULL;
}

static bool allocate(struct orders *orders, struct error *error)
{
    orders->downsets = (uint32_t)orders->graph->downset_count;
    const size_t cells = ((size_t)orders->stages + 1) * orders->downsets, stages = orders->stages;
    struct order_best *best = &orders->best;
    uint64_t **tables[] = { &orders->before, &orders->behind, &orders->slowest, &orders->tail };
    bool good = true;
    for (size_t i = 0; orders->has_bounds && i < sizeof tables / sizeof tables[0]; i++) {
        *tables[i] = malloc(cells * sizeof **tables[i]);
        good &= *tables[i] != NULL;
    }
    orders->is_closed = calloc(cells, sizeof orders->is_closed[0]);
    good &= orders->is_closed != NULL;
    best->order = calloc(orders->request->profile->layer_count, sizeof best->order[0]);
    best->cuts = calloc(stages + 1, sizeof best->cuts[0]);
    best->segments = calloc(stages, sizeof best->segments[0]);
    best->segment_count = calloc(stages, sizeof best->segment_count[0]);
    good &= best->order && best->cuts && best->segments && best->segment_count;
    return good || error_no_memory(error, "a search");
}

// coupled.h needs some order; blocks that stand together can be cut wherever they can be.
static bool make_coupled(struct orders *orders, struct error *error)
{
    uint32_t *order = malloc((orders->request->profile->layer_count + 1) * sizeof order[0]);
    if (!order)
        return error_no_memory(error, "a search");
    order_graph_together(orders->graph, order);
    orders->together = profile_reorder(orders->request->profile, order, error);
    free(order);
    orders->of_together = *orders->request;
    orders->of_together.profile = orders->together;
    orders->coupled = orders->together ? coupled_create(&orders->of_together, error) : NULL;
    return orders->coupled != NULL;
}

struct orders *orders_create(const struct search_request *request, enum orders_graph kind, size_t most,
                             struct error *error)
{
    bool too_many;
    const struct order_graph_request of_graph = { request->profile, &request->holding,
                                                  request->holding.tied_apart, kind != ORDERS_AS_IS,
                                                  most };
    struct order_graph *graph = order_graph_create(&of_graph, &too_many, error);
    struct orders *orders = graph ? calloc(1, sizeof *orders) : NULL;
    if (!orders) {
        order_graph_free(graph);
        if (graph)
            error_no_memory(error, "a search");
        return NULL;
    }
    orders->request = request;
    orders->only_bounds = kind == ORDERS_COARSE || !orders_is_plain(request);
    orders->graph = graph;
    orders->lost_ns = orders->best.value_ns = NO_ORDER;
    if (make_coupled(orders, error) && (kind != ORDERS_COARSE || order_graph_coarsen(graph, GROUPS, error))
        && read_schedule(orders, error) && allocate(orders, error) && order_floor_create(orders, error))
        return orders;
    orders_free(orders);
    return NULL;
}

static void free_known(struct orders *orders)
{
    size_t at = 0;
    for (struct order_stage *stage; (stage = stage_table_next(&orders->known, &at));) {
        for (size_t choice = 0; choice < stage->count; choice++) {
            free(stage->at[choice].layers);
            free(stage->at[choice].segments);
        }
        free(stage->at);
        free(stage);
    }
    stage_table_clear(&orders->known);
}

void orders_free(struct orders *orders)
{
    if (!orders)
        return;
    free_known(orders);
    order_floor_free(orders->floor);
    for (uint32_t s = 0; orders->best.segments && s < orders->stages; s++)
        free(orders->best.segments[s]);
    free(orders->best.segments);
    free(orders->best.segment_count);
    free(orders->best.order);
    free(orders->best.cuts);
    free(orders->before);
    free(orders->behind);
    free(orders->slowest);
    free(orders->tail);
    free(orders->is_closed);
    free(orders->busiest);
    pattern_room_free(orders->room);
    pattern_clear(&orders->pattern);
    coupled_free(orders->coupled);
    profile_free(orders->together);
    order_graph_free(orders->graph);
    free(orders);
}

// --- searching ------------------------------------------------------------------------------

// How many chains of downsets there are, where no bound leaves any of them out.
static bool count_chains(const struct orders *orders, double *count, struct error *error)
{
    const uint32_t downsets = orders->downsets;
    double *now = calloc(downsets, sizeof now[0]), *next = calloc(downsets, sizeof next[0]);
    struct downset_walk walk = { 0 };
    bool good = now && next;
    if (!good)
        error_no_memory(error, "a search");
    good = good && downset_walk_create(&walk, orders->graph->downsets, error);
    if (good)
        now[0] = 1;
    for (uint32_t s = 0; good && s < orders->stages; s++) {
        memset(next, 0, downsets * sizeof next[0]);
        for (uint32_t d = 0, to; d < downsets; d++) {
            if (now[d] == 0)
                continue;
            downset_walk_up(&walk, d);
            while (downset_walk_next(&walk, &to))
                next[to] += now[d];
        }
        double *swap = now;
        now = next;
        next = swap;
    }
    *count = good ? now[downsets - 1] : 0;
    downset_walk_clear(&walk);
    free(now);
    free(next);
    return good;
}

// A part of what is left of the budget.
static uint64_t until_part(const struct coupled *coupled, unsigned parts)
{
    return coupled->budget > coupled->work ? coupled->work + (coupled->budget - coupled->work) / parts : 0;
}

// Loops, in a third of what is left of the budget, and mixtures of paths; the tables know then
// what loops rule out.
static bool bound_paths(struct orders *orders, uint64_t *bound_ns, bool *whole, struct error *error)
{
    struct coupled *coupled = orders->coupled;
    if (!order_loops(orders, until_part(coupled, 3), bound_ns, error))
        return false;
    if (*bound_ns >= orders->best.value_ns)
        return true;
    if (!orders->only_bounds && !order_tables_fill(orders, orders->best.value_ns, whole, error))
        return false;
    return !*whole || order_paths(orders, until_part(coupled, 1), bound_ns, error);
}

bool orders_search(struct orders *orders, uint64_t *bound_ns, struct error *error)
{
    struct coupled *coupled = orders->coupled;
    bool whole = true;
    uint64_t root = 0;
    if (!coupled_work_bound(coupled, &root, error))
        return false;
    if (orders->has_bounds) {
        if (!order_tables_fill(orders, orders->best.value_ns, &whole, error))
            return false;
        if (whole && orders->tail[0] > root)
            root = orders->tail[0];
        if (whole && orders->pattern.is_known && !bound_paths(orders, &root, &whole, error))
            return false;
    } else {
        double chains;
        if (!count_chains(orders, &chains, error))
            return false;
        whole = chains * (double)(1 + coupled->actions / 32) <= (double)coupled->budget;
    }
    if (!whole || orders->only_bounds || root >= orders->best.value_ns)
        orders_lose(orders, root);
    else if (!order_nodes(orders, root, error))
        return false;
    *bound_ns = orders->lost_ns > root ? orders->lost_ns : root;
    return true;
}
