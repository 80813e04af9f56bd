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
#include "partitioner/orders/order_arranged.h"
#include "partitioner/orders/order_each.h"
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
    ORDER_SHARE = 8,  // of the budget, for one order among several
    OWN_PART = 6,     // of what is left, for the profile's own where all are searched,
    TIGHT_PART = 3,   // for that once more at least, where memory is tight,
    MOVES_PART = 16,  // and for small moves
};

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
    if (!orders_is_plain(&whole->request) || is_over(whole))
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

// Paths that all plans have, whoever holds which layers, where that is not given.
static bool bound_arranged(struct whole *whole, struct error *error)
{
    const struct search_request *request = &whole->request;
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator || !generator->takes_replicas || request->variants || request->free.variants)
        return generator != NULL;
    const uint32_t places =
        generator->weights == WEIGHTS_FLUSH ? ORDER_ARRANGED_PLACES : ORDER_ARRANGED_ASYNC_PLACES;
    return order_arranged_bound(request, places, &whole->bound_ns, &whole->work, error);
}

// The work alone: what is known of all orders before any is tried.
static bool bound_at_first(struct whole *whole, struct error *error)
{
    if (!orders_is_plain(&whole->request))
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
    if (!orders_is_plain(&whole->request))
        return bound_work(whole, error) && bound_arranged(whole, error);
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
    request.unbounded = true;
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
        if (!whole->plan || !orders_is_plain(&whole->request) || whole->plan->certificate.value_ns <= whole->bound_ns
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
        || (orders_is_arranged(&whole->request) && lone_layer_find(&whole->request, &layer, &ignored)
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
    struct schedule *order = orders_is_plain(request) ? search_order(request, request->micro_batches, &ignored) : NULL;
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

static bool recomputes(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].recompute_count > 0)
            return true;
    return false;
}

// What the own order gets once more: the further its plan is from its bound, the more there is to find; at most what
// it has where it is searched alone, so that all orders are not behind it.
static uint64_t tight_share(const struct whole *whole, const struct plan *plan)
{
    const uint64_t least = share_of(whole, TIGHT_PART), left = share_of(whole, 1);
    const uint64_t alone =
        (uint64_t)((double)whole->budget * SEARCH_DEFAULT_BUDGET / ORDERS_DEFAULT_BUDGET);
    const uint64_t most = alone < left ? alone : left;
    const uint64_t by_gap = (uint64_t)(4 * plan->certificate.gap * (double)left);
    return by_gap < least ? least : by_gap < most ? by_gap : most;
}

// The best plan of the profile's own order; again with more of the budget where a part is not enough for any, or
// where memory is tight, since all orders then take long to price.
static struct plan *try_own(struct whole *whole, struct error *error)
{
    struct search_request request = whole->request;
    request.unbounded = true;
    request.budget = whole->has_all ? share_of(whole, OWN_PART) : whole->budget;
    struct plan *plan = plan_search(&request, error);
    if (!whole->has_all || is_over(whole) || (!plan && (error->kind != ERROR_ANSWER || whole->work < request.budget))
        || (plan && (plan->certificate.proved || !recomputes(plan))))
        return plan;
    struct error again = { 0 };
    request.budget = plan ? tight_share(whole, plan) : whole->budget;
    request.deadline_ns = whole->request.deadline_ns;
    struct plan *other = plan_search(&request, &again);
    if (plan && (!other || other->certificate.value_ns >= plan->certificate.value_ns)) {
        plan_free(other);
        return plan;
    }
    plan_free(plan);
    *error = again;
    return other;
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
    struct whole whole = { .request = *given };
    struct search_request told = *given;
    struct telling telling;
    whole.has_all = has_all(&whole);
    whole.budget = given->budget ? given->budget : whole.has_all ? ORDERS_DEFAULT_BUDGET : SEARCH_DEFAULT_BUDGET;
    told.budget = whole.budget;
    telling_begin(&telling, &told, &whole.bound_ns, &whole.request);
    begin_bound(&whole, generator);
    whole.until_ns = given->deadline_ns ? began + given->deadline_ns : 0;
    whole.request.deadline_ns = given->deadline_ns - given->deadline_ns / 2;  // the other orders need some, too
    whole.request.work = &whole.work;
    whole.plan = try_own(&whole, &own);
    if (!whole.plan && own.kind != ERROR_ANSWER) {
        *error = own;
        return NULL;
    }
    use_usual_chunks(&whole.request, generator);
    whole.request.shortage = NULL;  // and the least are of one order where it is searched alone
    whole.request.least_ns = NULL;
    bool done = false;
    // What is not plain is only bounded over all orders, or else each is searched.
    bool good = orders_is_plain(&whole.request) || is_over(&whole)
             || orders_search_each(&whole.request, &whole.plan, &whole.bound_ns, &done, error);
    // A good plan to begin with leaves the more of the chains out.
    if (good && !done)
        good = try_moves(&whole, error) && try_all(&whole, &done, error) && (done || try_linear(&whole, error))
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
