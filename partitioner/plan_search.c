#include "partitioner/plan_search.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/layouts/layout.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "profiler/profile_reorder.h"
#include "schedules/board.h"

// The plan that a search of this name has found, if it holds.
static struct plan *hold(struct plan *plan, const struct search_request *request, const char *search,
                         struct error *error)
{
    // Links that are not the cluster's are no part of a plan, and evaluate.h knows plans only.
    if ((request->network || plan_evaluate(plan, request->profile, error)) && plan_holds_pins(plan, request, error))
        return plan;
    error->kind = ERROR_MACHINE;
    error_at(error, "the plan found does not hold, which is a fault of the %s", search);
    plan_free(plan);
    return NULL;
}

struct plan *plan_search(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    struct generator generator;
    if (!search_generator(&request, &generator, error) || !search_check(&request, error))
        return NULL;
    if (!request.chunks)
        request.chunks = generator.usual_chunks;
    if (!search_check_host(&request, error))
        return NULL;
    if (request.pinned.count > 0 && search_is_free(&request)) {
        error_set(error, "layers can be pinned to stages that are given, not to ones that the search may choose");
        return NULL;
    }
    struct plan *plan = search_is_free(&request) ? layout_search(&request, error)
                                                 : cut_search(&request, CUT_OWN_ORDER, error);
    if (!plan)
        return NULL;
    if (search_is_free(&request))
        search_say_unbounded(&request, &plan->certificate);
    return hold(plan, &request, "search", error);
}

// --- all orders -----------------------------------------------------------------------------------

// The request for who holds what in the plan, with its cuts to begin with.
static bool give(struct question *given, const struct search_request *request, const struct plan *plan,
                 struct error *error)
{
    if (!question_of(plan, request->profile, given, error))
        return false;
    const struct search_layout layout = search_is_free(request) ? given->request.layout : request->layout;
    given->request = *request;
    given->request.free = (struct search_freedom){ 0 };
    given->request.ranks = plan->ranks;
    given->request.chunks = plan->chunks;
    given->request.layout = layout;
    given->request.layout.begin = given->begin;
    return true;
}

// The better of two plans; the other is gone.
static struct plan *better(struct plan *a, struct plan *b)
{
    const bool takes_b = b && (!a || b->iteration_ns < a->iteration_ns);
    plan_free(takes_b ? a : b);
    return takes_b ? b : a;
}

// Every micro-batch goes through all layers somewhere, whoever holds them: on average no rank has less to do. 0 where that
// says nothing: of variants, which may take less, and of what never flushes.
static uint64_t work_of_all(const struct search_request *request)
{
    struct error ignored = { 0 };
    struct generator generator;
    if (!search_generator(request, &generator, &ignored) || generator.weights != WEIGHTS_FLUSH
        || request->layout.variants || request->free.variants)
        return 0;
    struct schedule *order = search_order(request, request->micro_batches, &ignored);
    const bool forward_only = order && schedule_is_forward_only(order);
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
    return order ? (uint64_t)(work * request->micro_batches * 1000 / speed) : 0;
}

// All orders, for who holds what in the best plan of the profile's own; the better of both.
static struct plan *search_graph(const struct search_request *request, struct plan *own, struct error *error)
{
    const bool is_free = search_is_free(request);
    uint64_t bound = work_of_all(request), least = 0;
    struct question given = { .request = *request };
    struct error why = { 0 };
    struct plan *plan = NULL;
    if (own && !give(&given, request, own, error)) {
        plan_free(own);
        return NULL;
    }
    // Where layers and ranks are so few, all that is free is searched over all orders at once, and what comes of it is
    // a bound of all.
    const bool is_small = is_free && request->profile->layer_count <= 12 && request->ranks <= 6;
    if (is_small)
        given.request = *request;
    given.request.wanted.all_orders |= is_small;
    given.request.found.least_ns = &least;
    if (is_small)
        plan = layout_search(&given.request, &why);
    else if (own || !is_free)
        plan = cut_search(&given.request, CUT_ALL_ORDERS, &why);
    question_clear(&given);
    if (!plan && why.kind == ERROR_MACHINE) {
        *error = why;
        plan_free(own);
        return NULL;
    }
    // Of other replicas and devices nothing is known but their work.
    bound = is_small ? max_u64(bound, least) : is_free ? bound : least;
    struct plan *best = better(own, plan);
    if (best) {
        const bool is_ended = strstr(best->certificate.stopped, "deadline") || strstr(best->certificate.stopped, "interrupted")
                           || strstr(best->certificate.stopped, "budget");
        char stopped[sizeof best->certificate.stopped];
        snprintf(stopped, sizeof stopped, "%s", is_ended ? best->certificate.stopped : "not all orders of the layers were tried");
        certificate_bound(&best->certificate, bound, stopped);
        search_say_unbounded(request, &best->certificate);
    }
    if (request->found.least_ns)
        *request->found.least_ns = best && best->certificate.value_ns < bound ? best->certificate.value_ns : bound;
    return best;
}

// Of several orders the profile's own alone: all that is known of plans of others is the work of the ranks.
static struct plan *search_own_of_several(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    struct telling telling;
    uint64_t bound = work_of_all(given), least = 0;
    telling_begin(&telling, given, &bound, &request);
    request.found.least_ns = &least;
    struct plan *plan = plan_search(&request, error);
    if (plan) {
        certificate_bound(&plan->certificate, bound,
                          plan->certificate.stopped[0] ? plan->certificate.stopped
                                                       : "other orders of the layers were not asked for");
        search_say_unbounded(given, &plan->certificate);
    } else if (error->kind == ERROR_ANSWER) {
        error_at(error, "in the profile's own order of layers, which is asked for (others may have a plan)");
    }
    if (given->found.least_ns)
        *given->found.least_ns = plan ? min_u64(bound, plan->certificate.value_ns) : bound;
    return plan;
}

struct plan *plan_search_orders(const struct search_request *given, struct error *error)
{
    enum { OWN_PARTS = 2, PARTS = 5 };  // of the budget, and of the time, for the profile's own order
    if (profile_has_one_order(given->profile) || given->pinned.count > 0)  // pins are for the profile's own order
        return plan_search(given, error);
    if (given->wanted.own_order)
        return search_own_of_several(given, error);
    struct generator generator;
    if (!search_generator(given, &generator, error))
        return NULL;
    const uint64_t began = clock_now_ns(), budget = given->limits.budget ? given->limits.budget : ORDERS_DEFAULT_BUDGET;
    struct search_request request = *given;
    struct error own_error = { 0 };
    struct telling telling;
    const uint64_t work = work_of_all(given);  // what is told of all orders while some are searched
    telling_begin(&telling, given, &work, &request);
    request.limits.budget = 1 + budget / PARTS * OWN_PARTS;
    request.limits.deadline_ns = given->limits.deadline_ns ? 1 + given->limits.deadline_ns / PARTS * OWN_PARTS : 0;
    struct plan *own = plan_search(&request, &own_error);
    if (!own && own_error.kind != ERROR_ANSWER) {
        *error = own_error;
        return NULL;
    }
    const uint64_t gone = clock_now_ns() - began;
    request.chunks = request.chunks ? request.chunks : generator.usual_chunks;
    request.limits.budget = 1 + budget - budget / PARTS * OWN_PARTS;
    const uint64_t deadline = given->limits.deadline_ns;
    request.limits.deadline_ns = !deadline ? 0 : gone < deadline ? deadline - gone : 1;
    struct search_shortage shortage = { 0 };
    request.found.shortage = &shortage;
    struct plan *plan = search_graph(&request, own, error);
    // Another order may lack less than the profile's own.
    struct search_shortage *known = given->found.shortage;
    if (known && shortage.is_known && (!known->is_known || shortage.lacks_bytes < known->lacks_bytes))
        *known = shortage;
    if (plan)
        return hold(plan, given, "search over orders", error);
    if (error->kind == ERROR_NONE) {
        *error = own_error;
        if (!given->found.least_ns || *given->found.least_ns != UINT64_MAX)
            error_at(error, "in the profile's own order of layers (others may have a plan, and not all were tried)");
    }
    return NULL;
}

void plan_search_blame_deadline(uint64_t deadline_ns, struct error *error)
{
    if (deadline_ns > 0 && error->kind == ERROR_ANSWER && strstr(error->text, "the deadline has passed"))
        error->kind = ERROR_MACHINE;
}
