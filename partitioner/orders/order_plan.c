#include "partitioner/orders/order_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/arrangement/arrangement.h"
#include "partitioner/arrangement/arrangement_async.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/orders/order_linear.h"
#include "partitioner/orders/order_moves.h"
#include "partitioner/orders/orders.h"
#include "partitioner/plan_search.h"
#include "partitioner/predict.h"
#include "partitioner/search/lone_layer.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "profiler/profile_reorder.h"
#include "schedules/board.h"

enum {
    MOST_DOWNSETS = 3000,           // as the graph is
    MOST_REDUCED_DOWNSETS = 60000,  // once layers without time are put to others
    MOST_COARSE_DOWNSETS = 500000,  // where only a bound is asked for
    GROUPS = 1000,
    ORDER_SHARE = 8,  // of the budget, for one order among several
    OWN_PART = 6,     // of what is left, for the profile's own where all are searched,
    MOVES_PART = 16,  // and for small moves
};

// Whether the ways to arrange stages are one, and to hold states the usual one: what
// order_stage.c prices. All else only takes longer than that, or is searched order by order.
static bool is_arranged(const struct search_request *request)
{
    return !search_is_free(request) && !request->replicas && !request->variants && !request->devices;
}

static bool is_plain(const struct search_request *request)
{
    return is_arranged(request) && holding_is_plain(&request->holding);
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
    orders->only_bounds = kind == ORDERS_COARSE || !is_plain(request);
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

// --- the plan --------------------------------------------------------------------------------

static bool is_own_order(const uint32_t *order, size_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (order[i] != i)
            return false;
    return true;
}

static bool set_stages(const struct orders *orders, struct plan *plan, struct error *error)
{
    const struct order_best *best = &orders->best;
    const struct placement *placement = orders->coupled->placement;
    struct profile *ordered = profile_reorder(orders->request->profile, best->order, error);
    bool good = ordered != NULL;
    for (uint32_t s = 0; good && s < orders->stages; s++) {
        const struct segment layers = { best->cuts[s], best->cuts[s + 1] };
        good = plan_set_stage(plan, s, ordered, layers, 0, best->segments[s], best->segment_count[s], error)
            && plan_set_devices(plan, s, &placement->copies[placement->copy_at[s]], placement_copies(placement, s),
                                error);
    }
    profile_free(ordered);
    return good;
}

static bool set_order(struct plan *plan, const uint32_t *order, size_t count, struct error *error)
{
    if (is_own_order(order, count))
        return true;
    plan->order = malloc(count * sizeof order[0]);
    if (!plan->order)
        return error_no_memory(error, "the order of a plan");
    memcpy(plan->order, order, count * sizeof order[0]);
    return true;
}

static struct plan *make_plan(const struct orders *orders, struct error *error)
{
    const struct search_request *request = &orders->of_together;
    struct search_request of_coupled = *request;
    of_coupled.chunks = orders->coupled->request->chunks;
    struct plan *plan = search_begin_plan(&of_coupled, orders->stages, error);
    if (plan && set_stages(orders, plan, error)
        && set_order(plan, orders->best.order, request->profile->layer_count, error)
        && plan_predict(plan, orders->request->profile, error)) {
        plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = orders->best.value_ns };
        return plan;
    }
    plan_free(plan);
    return NULL;
}

static void certify(struct plan *plan, uint64_t bound_ns, const char *stopped)
{
    struct certificate *certificate = &plan->certificate;
    const uint64_t value = certificate->value_ns, bound = bound_ns < value ? bound_ns : value;
    certificate->lower_bound_ns = bound;
    certificate->proved = bound == value;
    certificate->by = BY_ENUMERATION;
    certificate->gap = value > 0 ? (double)(value - bound) / (double)value : 0;
    memset(certificate->stopped, 0, sizeof certificate->stopped);
    if (!certificate->proved)
        snprintf(certificate->stopped, sizeof certificate->stopped, "%s",
                 stopped && stopped[0] ? stopped : "not all orders of the layers were tried");
}

// --- the whole ---------------------------------------------------------------------------------

struct whole {
    struct search_request request;
    struct plan *plan;       // the best so far, or NULL
    uint64_t bound_ns;       // of all orders
    uint64_t budget, work;   // of all parts together
    uint64_t until_ns;       // by the clock; 0: any time
    bool has_all;            // all orders are searched, by bounds that say much: one order is only to begin with
    char stopped[80];
};

// Whether the search is ended; else the next part of it may take what is left of the time.
static bool is_over(struct whole *whole)
{
    const uint64_t now_ns = whole->until_ns ? clock_now_ns() : 0;
    if (whole->request.interrupted && *whole->request.interrupted)
        return true;
    const bool is_late = whole->until_ns && now_ns >= whole->until_ns;
    whole->request.deadline_ns = is_late ? 1 : whole->until_ns - now_ns;
    return is_late;
}

// What a part may take of what is left.
static uint64_t share_of(const struct whole *whole, unsigned parts)
{
    return 1 + (whole->budget > whole->work ? (whole->budget - whole->work) / parts : 0);
}

// The better of the plan so far and another, which is taken.
static void take_better(struct whole *whole, struct plan *other)
{
    if (!other)
        return;
    if (whole->plan && whole->plan->certificate.value_ns <= other->certificate.value_ns) {
        plan_free(other);
        return;
    }
    plan_free(whole->plan);
    whole->plan = other;
}

static bool try_chains(struct whole *whole, struct orders *orders, struct error *error)
{
    if (whole->plan)
        orders->best.value_ns = whole->plan->certificate.value_ns;
    struct coupled *coupled = orders->coupled;
    if (whole->has_all)
        coupled->budget = share_of(whole, 1) - share_of(whole, MOVES_PART);
    const bool good = orders_search(orders, &whole->bound_ns, error);
    whole->work += coupled->work;
    if (!good)
        return false;
    snprintf(whole->stopped, sizeof whole->stopped, "%s", coupled->stopped);
    if (coupled->work > coupled->budget)
        snprintf(whole->stopped, sizeof whole->stopped, "the budget of %llu units of work is used up",
                 (unsigned long long)whole->budget);
    if (!orders->best.is_set || orders->best.value_ns > JSON_MAX)  // which no plan can say
        return true;
    struct plan *plan = make_plan(orders, error);
    take_better(whole, plan);
    return plan != NULL;
}

// As the graph is, if it is small; else with layers that take no time put to others.
static bool try_all(struct whole *whole, bool *done, struct error *error)
{
    *done = false;
    if (!is_plain(&whole->request) || is_over(whole))
        return true;
    struct orders *orders = orders_create(&whole->request, ORDERS_AS_IS, MOST_DOWNSETS, error);
    if (!orders && error->kind == ERROR_NONE)
        orders = orders_create(&whole->request, ORDERS_REDUCED, MOST_REDUCED_DOWNSETS, error);
    const bool good = orders ? try_chains(whole, orders, error) : error->kind == ERROR_NONE;
    *done = good && orders;
    orders_free(orders);
    return good;
}

// Every micro-batch goes through all layers somewhere, whoever holds them. Variants may
// take less; what goes on from iteration to iteration is known by its work alone.
static bool bound_work(struct whole *whole, struct error *error)
{
    const struct search_request *request = &whole->request;
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator || request->variants || request->free.variants)
        return generator != NULL;
    if (generator->weights != WEIGHTS_FLUSH)
        return arrangement_async_average(request, &whole->bound_ns, error);
    struct error why = { 0 };
    struct schedule *order = search_order(request, request->micro_batches, &why);
    if (!order && why.kind == ERROR_MACHINE)
        return error_set_kind(error, why.kind, "%s", why.text);
    if (!order)  // none for all ranks, but there may be one for fewer
        return true;
    const bool forward_only = schedule_is_forward_only(order);
    schedule_free(order);
    unsigned __int128 work = 0;
    uint64_t speed = 0;
    for (size_t l = 0; l < request->profile->layer_count; l++) {
        const struct profile_layer *layer = &request->profile->layers[l];
        const uint64_t parts = layer->backward_input_ns + layer->backward_weight_ns;
        work += layer->forward_ns;
        work += forward_only ? 0 : parts < layer->backward_ns ? parts : layer->backward_ns;
    }
    for (size_t d = 0; d < request->cluster->device_count; d++)
        speed += request->cluster->devices[d].speed_permille;
    whole->bound_ns = (uint64_t)(work * request->micro_batches * 1000 / speed);
    return true;
}

// The work alone: what is known of all orders before any is tried.
static bool bound_at_first(struct whole *whole, struct error *error)
{
    if (!is_plain(&whole->request))
        return bound_work(whole, error);
    struct coupled *coupled = coupled_create(&whole->request, error);
    const bool good = coupled && coupled_work_bound(coupled, &whole->bound_ns, error);
    coupled_free(coupled);
    return good;
}

// What no order can beat where there are too many to try: of groups of downsets, or, where
// even these are not all known, the work alone.
static bool bound_orders(struct whole *whole, struct error *error)
{
    if (!is_plain(&whole->request))
        return bound_work(whole, error);
    struct orders *orders = orders_create(&whole->request, ORDERS_COARSE, MOST_COARSE_DOWNSETS, error);
    if (orders) {
        const bool good = try_chains(whole, orders, error);
        orders_free(orders);
        return good;
    }
    return error->kind == ERROR_NONE && bound_at_first(whole, error);
}

// The best plan of one order, if it is better; in a part of the time, of which there is more to do. Before there is any
// plan also where the search is ended, which is short then.
static bool try_order(struct whole *whole, const uint32_t *order, struct error *error)
{
    const size_t layers = whole->request.profile->layer_count;
    const bool over = is_over(whole);
    if (is_own_order(order, layers) || (over && whole->plan))
        return true;
    struct error none = { 0 };
    struct profile *ordered = profile_reorder(whole->request.profile, order, error);
    struct search_request request = whole->request;
    request.profile = ordered;
    request.budget = whole->has_all ? share_of(whole, MOVES_PART) : 1 + whole->budget / ORDER_SHARE;
    request.below_ns = whole->plan ? whole->plan->certificate.value_ns : 0;
    struct plan *plan = ordered ? plan_search(&request, &none) : NULL;
    const bool good = ordered && (!plan || set_order(plan, order, layers, error));
    take_better(whole, plan);
    profile_free(ordered);
    return good;
}

static bool try_linear(struct whole *whole, struct error *error)
{
    uint32_t *order = malloc(whole->request.profile->layer_count * sizeof order[0]);
    bool good = order || error_no_memory(error, "a search");
    for (enum order_kind kind = 0; good && kind < ORDER_KINDS; kind++)
        good = order_linear(whole->request.profile, kind, order, error) && try_order(whole, order, error);
    free(order);
    return good && (is_over(whole) || bound_orders(whole, error));
}

// Where the best is not proved: small moves, and then cuts of the order that comes of them,
// as long as either helps.
static bool try_moves(struct whole *whole, struct error *error)
{
    enum { MOST_ROUNDS = 4 };
    uint32_t *order = malloc(whole->request.profile->layer_count * sizeof order[0]);
    bool good = order || error_no_memory(error, "a search"), better = true;
    for (unsigned round = 0; good && better && round < MOST_ROUNDS; round++) {
        if (!whole->plan || !is_plain(&whole->request) || whole->plan->certificate.value_ns <= whole->bound_ns
            || is_over(whole))
            break;
        struct search_request request = whole->request;
        request.budget = whole->has_all ? share_of(whole, MOVES_PART) : whole->budget;
        good = order_moves(&request, whole->plan, order, &better, error)
            && (!better || try_order(whole, order, error));
    }
    free(order);
    return good;
}

// Why the profile's own order has no plan, and whether that goes for all orders.
static void explain(const struct whole *whole, const struct error *own, struct error *error)
{
    struct lone_layer layer = { 0 };
    struct error ignored = { 0 };
    const bool is_certain = whole->bound_ns == NO_ORDER
        || (is_arranged(&whole->request) && lone_layer_find(&whole->request, &layer, &ignored)
            && layer.lacks_bytes > 0);
    *error = *own;
    if (!is_certain)
        error_at(error, "in the profile's own order of layers (others may have a plan, and not all were tried)");
}

// What ended the whole; a part of it knows only the rest of the time that it was given.
static void say_stopped(struct whole *whole, const struct search_request *given, uint64_t began)
{
    char time[NUMBER_SIZE];
    if (given->interrupted && *given->interrupted)
        snprintf(whole->stopped, sizeof whole->stopped, "interrupted");
    else if (given->deadline_ns && clock_now_ns() - began >= given->deadline_ns)
        snprintf(whole->stopped, sizeof whole->stopped, "the deadline of %s has passed",
                 time_format(given->deadline_ns, time));
}

static void use_usual_chunks(struct search_request *request, const struct generator *generator)
{
    request->chunks = request->chunks ? request->chunks : generator->usual_chunks;
}

// Whether the orders of a graph are few enough for all of them to be searched, and the schedule's is one that
// bounds know much of.
static bool has_all(const struct whole *whole)
{
    const struct search_request *request = &whole->request;
    struct error ignored = { 0 };
    struct order_graph_request of_graph = { request->profile, &request->holding, request->holding.tied_apart, false,
                                            MOST_DOWNSETS };
    struct pattern pattern = { 0 };
    bool ignored_too, is_known = false;
    struct schedule *order = is_plain(request) ? search_order(request, request->micro_batches, &ignored) : NULL;
    if (order && pattern_read(order, &pattern, &ignored))
        is_known = pattern.is_known;
    pattern_clear(&pattern);
    schedule_free(order);
    struct order_graph *graph = is_known ? order_graph_create(&of_graph, &ignored_too, &ignored) : NULL;
    of_graph.reduce = true;
    of_graph.most_downsets = MOST_REDUCED_DOWNSETS;
    if (is_known && !graph)
        graph = order_graph_create(&of_graph, &ignored_too, &ignored);
    order_graph_free(graph);
    return graph != NULL;
}

// The best plan of the profile's own order; with all of the budget where a part is not enough for any.
static struct plan *try_own(struct whole *whole, struct error *error)
{
    struct search_request request = whole->request;
    request.budget = whole->has_all ? share_of(whole, OWN_PART) : whole->budget;
    struct plan *plan = plan_search(&request, error);
    if (plan || !whole->has_all || error->kind != ERROR_ANSWER || whole->work < request.budget || is_over(whole))
        return plan;
    *error = (struct error){ 0 };
    request.budget = whole->budget;
    request.deadline_ns = whole->request.deadline_ns;
    return plan_search(&request, error);
}

// So that there is something to tell of; what is wrong with the request the search itself says.
static void begin_bound(struct whole *whole, const struct generator *generator)
{
    struct error ignored = { 0 };
    struct whole first = { .request = whole->request };
    use_usual_chunks(&first.request, generator);
    if (bound_at_first(&first, &ignored) && first.bound_ns != NO_ORDER)
        whole->bound_ns = first.bound_ns;
}

struct plan *plan_search_orders(const struct search_request *given, struct error *error)
{
    if (profile_has_one_order(given->profile) || given->pin_count > 0)  // pins are for the profile's own order
        return plan_search(given, error);
    const struct generator *generator = generator_find(given->schedule, error);
    if (!generator)
        return NULL;
    const uint64_t began = clock_now_ns();
    struct error own = { 0 };
    struct whole whole = { .request = *given, .budget = given->budget ? given->budget : SEARCH_DEFAULT_BUDGET };
    struct telling telling;
    telling_begin(&telling, given, &whole.bound_ns, &whole.request);
    begin_bound(&whole, generator);
    whole.until_ns = given->deadline_ns ? began + given->deadline_ns : 0;
    whole.request.deadline_ns = given->deadline_ns - given->deadline_ns / 2;  // the other orders need some, too
    whole.request.work = &whole.work;
    whole.has_all = has_all(&whole);
    whole.plan = try_own(&whole, &own);
    if (!whole.plan && own.kind != ERROR_ANSWER) {
        *error = own;
        return NULL;
    }
    use_usual_chunks(&whole.request, generator);
    whole.request.shortage = NULL;  // and the least are of one order where it is searched alone
    whole.request.least_ns = NULL;
    bool done;
    // A good plan to begin with leaves the more of the chains out.
    const bool good = try_moves(&whole, error) && try_all(&whole, &done, error) && (done || try_linear(&whole, error))
                   && try_moves(&whole, error);
    if (given->work)
        *given->work += whole.work;
    if (good && given->least_ns)
        *given->least_ns = whole.plan && whole.plan->certificate.value_ns < whole.bound_ns
                             ? whole.plan->certificate.value_ns : whole.bound_ns;
    if (good && whole.plan) {
        say_stopped(&whole, given, began);
        certify(whole.plan, whole.bound_ns, whole.stopped);
        search_say_unbounded(given, &whole.plan->certificate);
        if (given->network || plan_evaluate(whole.plan, given->profile, error))
            return whole.plan;
        error->kind = ERROR_MACHINE;
        error_at(error, "the plan found does not hold, which is a fault of the search over orders");
    } else if (good) {
        explain(&whole, &own, error);
    }
    plan_free(whole.plan);
    return NULL;
}
