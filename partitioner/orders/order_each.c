#include "partitioner/orders/order_each.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "partitioner/plan_search.h"
#include "profiler/profile_reorder.h"

enum { MOST_ORDERS = 2000, MOST_LAYERS = 64 };

// --- orders -----------------------------------------------------------------------------

// Whether to go on; *error says whether it is one why not.
typedef bool order_visit(void *self, const uint32_t *order, struct error *error);

struct going {
    const struct profile *profile;
    uint32_t order[MOST_LAYERS];
    uint32_t missing[MOST_LAYERS];  // of each layer: how many that it reads from are not placed; PLACED
    order_visit *visit;
    void *self;
    struct error *error;
};

#define PLACED UINT32_MAX

static bool go_on(struct going *going, uint32_t placed)
{
    const struct profile *profile = going->profile;
    if (placed == profile->layer_count)
        return going->visit(going->self, going->order, going->error);
    bool on = true;
    for (uint32_t l = 0; on && l < profile->layer_count; l++) {
        if (going->missing[l] > 0)
            continue;
        going->order[placed] = l;
        going->missing[l] = PLACED;
        for (size_t e = 0; e < profile->edge_count; e++)
            going->missing[profile->edges[e].to] -= profile->edges[e].from == l;
        on = go_on(going, placed + 1);
        for (size_t e = 0; e < profile->edge_count; e++)
            going->missing[profile->edges[e].to] += profile->edges[e].from == l;
        going->missing[l] = 0;
    }
    return on;
}

// All of them, until one is not gone on from; the profile's own is the first.
static bool visit_orders(const struct profile *profile, order_visit *visit, void *self, struct error *error)
{
    struct going going = { .profile = profile, .visit = visit, .self = self, .error = error };
    for (size_t e = 0; e < profile->edge_count; e++)
        going.missing[profile->edges[e].to]++;
    return go_on(&going, 0);
}

static bool count_order(void *self, const uint32_t *order, struct error *error)
{
    (void)order, (void)error;
    uint32_t *count = self;
    return ++*count <= MOST_ORDERS;
}

static bool are_few(const struct profile *profile)
{
    uint32_t count = 0;
    return profile->layer_count <= MOST_LAYERS && visit_orders(profile, count_order, &count, NULL);
}

// --- their plans ------------------------------------------------------------------------

struct each {
    const struct search_request *request;
    struct plan **best;
    uint64_t budget, work, deadline_ns;  // of all together; a deadline by the clock, or 0
    uint64_t bound_ns;                   // of those so far
    bool is_first;
};

static struct search_request request_of(struct each *each, const struct profile *ordered, uint64_t *least,
                                        struct search_shortage *shortage)
{
    struct search_request request = *each->request;
    request.profile = ordered;
    request.below_ns = *each->best ? (*each->best)->certificate.value_ns : 0;
    request.budget = each->budget - each->work;
    request.work = &each->work;
    request.least_ns = least;
    request.shortage = shortage;
    if (each->deadline_ns) {
        const uint64_t now = clock_now_ns();
        request.deadline_ns = each->deadline_ns > now ? each->deadline_ns - now : 1;
    }
    return request;
}

static bool take(struct each *each, struct plan *plan, const uint32_t *order, struct error *error)
{
    const size_t layers = each->request->profile->layer_count;
    plan->order = malloc(layers * sizeof order[0]);
    if (!plan->order) {
        plan_free(plan);
        return error_no_memory(error, "the order of a plan");
    }
    memcpy(plan->order, order, layers * sizeof order[0]);
    plan_free(*each->best);
    *each->best = plan;
    return true;
}

static bool must_stop(const struct each *each)
{
    const struct search_request *request = each->request;
    return each->work >= each->budget || (request->interrupted && *request->interrupted)
        || (each->deadline_ns && clock_now_ns() > each->deadline_ns);
}

static bool search_order_alone(struct each *each, const uint32_t *order, uint64_t *least, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    struct profile *ordered = profile_reorder(each->request->profile, order, error);
    if (!ordered)
        return false;
    const struct search_request request = request_of(each, ordered, least, &shortage);
    struct plan *plan = plan_search(&request, &why);
    profile_free(ordered);
    if (!plan && why.kind == ERROR_MACHINE) {
        *error = why;
        return false;
    }
    if (!plan)
        return true;
    *least = plan->certificate.lower_bound_ns;
    if (*each->best && (*each->best)->certificate.value_ns <= plan->certificate.value_ns) {
        plan_free(plan);
        return true;
    }
    return take(each, plan, order, error);
}

// Goes on while each is searched to its end.
static bool visit_order(void *self, const uint32_t *order, struct error *error)
{
    struct each *each = self;
    uint64_t least = 0;
    const bool is_known = each->is_first && *each->best;
    each->is_first = false;
    if (is_known)
        return true;
    if (must_stop(each) || !search_order_alone(each, order, &least, error))
        return false;
    each->bound_ns = least < each->bound_ns ? least : each->bound_ns;
    return !*each->best ? each->bound_ns == UINT64_MAX : each->bound_ns >= (*each->best)->certificate.value_ns;
}

bool orders_search_each(const struct search_request *request, struct plan **best, uint64_t *bound_ns, bool *done,
                        struct error *error)
{
    struct each each = { .request = request, .best = best, .bound_ns = UINT64_MAX, .is_first = true };
    const uint64_t budget = request->budget ? request->budget : SEARCH_DEFAULT_BUDGET;
    const uint64_t spent = request->work ? *request->work : 0;
    each.budget = budget > spent ? budget - spent : 0;
    each.deadline_ns = request->deadline_ns ? clock_now_ns() + request->deadline_ns : 0;
    *done = false;
    if ((*best && !(*best)->certificate.proved) || !are_few(request->profile))
        return true;
    if (*best)
        each.bound_ns = (*best)->certificate.lower_bound_ns;
    *done = visit_orders(request->profile, visit_order, &each, error);
    if (request->work)
        *request->work += each.work;
    if (*done)
        *bound_ns = each.bound_ns;
    return *done || error->kind == ERROR_NONE;
}
