#include "partitioner/plan_search.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/layouts/layout.h"
#include "partitioner/search/recompute_answers.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "profiler/profile_reorder.h"
#include "schedules/board.h"

// Returns the plan that a search of this name has found, if it holds. Otherwise frees it and sets an error.
static struct plan *hold(struct plan *plan, const struct search_request *request, const char *search,
                         struct error *error)
{
    // Links that are not the cluster's are no part of a plan, and evaluate.h knows only plans.
    if ((request->network || plan_evaluate(plan, request->profile, error)) && plan_take_pins(plan, request, error))
        return plan;
    error->kind = ERROR_MACHINE;
    error_at(error, "the plan found does not hold, which is a fault of the %s", search);
    plan_free(plan);
    return NULL;
}

// Checks what has nothing to do with the order of the layers.
static bool check(struct search_request *request, struct error *error)
{
    if (request->found.shortage)
        request->found.shortage->lack = LACK_REFUSED;
    if (!search_resolve(request, error) || !search_check(request, error))
        return false;
    if (!request->chunks)
        request->chunks = request->generator.usual_chunks;
    if (request->pinned.count > 0 && search_is_free(request))
        return error_set(error,
                         "layers can be pinned to stages that are given, not to ones that the search may choose");
    return search_check_host(request, error);
}

// --- the profile's own order ----------------------------------------------------------------------

#define NOT_BEGUN (UINT64_MAX - 1)  // a least time that no search has begun to look for

// *least_ns: no plan of this order can beat it.
static struct plan *search_own(const struct search_request *given, uint64_t *least_ns, struct error *error)
{
    struct search_request request = *given;
    request.found.least_ns = least_ns;
    *least_ns = NOT_BEGUN;
    struct plan *plan = search_is_free(&request) ? layout_search(&request, error)
                                                 : cut_search(&request, CUT_OWN_ORDER, error);
    if (!plan)
        return NULL;
    if (search_is_free(&request))
        search_say_unbounded(&request, &plan->certificate);
    return hold(plan, &request, "search", error);
}

// --- what is proved -------------------------------------------------------------------------------

// If none fits and none was seen to lack memory, there was none to look at, for example no arrangement of so many
// devices.
static enum search_lack lack_of(const struct search_shortage *shortage, bool none_fits, const struct error *why)
{
    if (why->kind == ERROR_INPUT || (none_fits && !shortage->is_known))
        return LACK_REFUSED;
    return none_fits ? LACK_PROVED : LACK_OPEN;
}

// The one place where what a search has found out becomes a claim about all orders of the layers.
static void prove(const struct search_request *request, struct plan *plan, uint64_t bound_ns, const struct error *why)
{
    if (plan) {
        struct certificate *certificate = &plan->certificate;
        const bool is_ended = certificate->stop != STOP_NONE && certificate->stop != STOP_OTHER;
        const struct certificate was = *certificate;
        certificate_bound(certificate, bound_ns, is_ended ? was.stop : STOP_OTHER,
                          is_ended ? was.stopped : "not all orders of the layers were tried");
        search_say_unbounded(request, certificate);
    } else if (request->found.shortage) {
        request->found.shortage->lack = lack_of(request->found.shortage, bound_ns == UINT64_MAX, why);
    }
    if (request->found.least_ns)
        *request->found.least_ns = plan ? min_u64(plan->certificate.value_ns, bound_ns) : bound_ns;
}

static struct plan *search_one_order(const struct search_request *request, struct error *error)
{
    uint64_t least_ns;
    struct plan *plan = search_own(request, &least_ns, error);
    const bool is_begun = least_ns != NOT_BEGUN;
    if (request->found.least_ns && is_begun)
        *request->found.least_ns = least_ns;
    if (!plan && request->found.shortage && is_begun)
        request->found.shortage->lack = lack_of(request->found.shortage, least_ns == UINT64_MAX, error);
    return plan;
}

// Every micro-batch goes through all layers somewhere, whichever rank holds them, so on average no rank has less to
// do. The result is 0 if that says nothing: with variants, which may take less, and for schedules that never flush.
static uint64_t work_of_all(const struct search_request *request)
{
    struct error ignored = { 0 };
    if (search_generator(request)->weights != WEIGHTS_FLUSH || request->layout.variants || request->free.variants)
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
    // If devices are chosen, any of them may do the work.
    const bool is_given = !search_is_free(request);
    for (uint32_t d = 0; d < (is_given ? request->ranks : request->cluster->device_count); d++)
        speed += (is_given ? search_device(request, d) : &request->cluster->devices[d])->speed_permille;
    return order ? (uint64_t)(work * request->micro_batches * 1000 / speed) : 0;
}

// Searches only the profile's own of several orders. All that is known of the others is the work of the ranks.
static struct plan *search_own_of_several(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    struct telling telling;
    uint64_t bound_ns = work_of_all(given), work_ns = 0, least_ns;
    telling_begin(&telling, given, &bound_ns, &request);
    request.found.work_ns = search_is_free(given) ? NULL : &work_ns;
    struct plan *plan = search_own(&request, &least_ns, error);
    prove(given, plan, max_u64(bound_ns, work_ns), error);
    if (!plan && error->kind == ERROR_ANSWER)
        error_at(error, "in the profile's own order of layers (others may have a plan, and not all were tried)");
    return plan;
}

// --- all orders -----------------------------------------------------------------------------------

// The request for the layout of a plan, with its cuts to begin with.
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

// Returns the better of two plans, and frees the other.
static struct plan *better(struct plan *a, struct plan *b)
{
    const bool takes_b = b && (!a || b->iteration_ns < a->iteration_ns);
    plan_free(takes_b ? a : b);
    return takes_b ? b : a;
}

// If layers and ranks are so few, all that is free is searched over all orders at once, and the result bounds all of
// them.
static bool is_small(const struct search_request *request)
{
    return search_is_free(request) && request->profile->layer_count <= 12 && request->ranks <= 6;
}

// Searches all orders, for the layout of the plan of the profile's own. *least_ns: no plan with this layout can beat
// it.
static struct plan *search_all(const struct search_request *request, const struct plan *own_plan, uint64_t *least_ns,
                               struct error *error)
{
    struct question given = { .request = *request };
    struct plan *plan = NULL;
    *least_ns = 0;
    if (own_plan && !give(&given, request, own_plan, error))
        return NULL;
    if (is_small(request))
        given.request = *request;
    given.request.wanted.all_orders |= is_small(request);
    given.request.found.least_ns = least_ns;
    if (is_small(request))
        plan = layout_search(&given.request, error);
    else if (own_plan || !search_is_free(request))
        plan = cut_search(&given.request, CUT_ALL_ORDERS, error);
    question_clear(&given);
    return plan;
}

struct plan *plan_search_wider(const struct search_request *given, struct plan *own_plan, struct error *error)
{
    struct search_request request = *given;
    struct search_shortage shortage = { 0 }, *known = given->found.shortage;
    request.found.shortage = known ? &shortage : NULL;
    if (!check(&request, error)) {
        plan_free(own_plan);
        return NULL;
    }
    uint64_t least_ns, bound_ns = own_plan ? own_plan->certificate.lower_bound_ns : work_of_all(given);
    struct plan *best = better(own_plan, search_all(&request, own_plan, &least_ns, error));
    if (error->kind == ERROR_MACHINE) {
        plan_free(best);
        return NULL;
    }
    // For other replicas and devices, nothing is known but their work.
    if (is_small(given) || !search_is_free(given))
        bound_ns = max_u64(bound_ns, least_ns);
    // Another order may lack less than the profile's own.
    if (shortage.is_known && (!known->is_known || shortage.lacks_bytes < known->lacks_bytes))
        *known = shortage;
    prove(given, best, bound_ns, error);
    if (!best)
        return NULL;
    *error = (struct error){ 0 };  // it may be of a search that found nothing
    return hold(best, given, "search over orders", error);
}

// --- the whole ------------------------------------------------------------------------------------

static struct plan *search_orders(const struct search_request *given, struct error *error)
{
    enum { OWN_PARTS = 2, PARTS = 5 };  // of the budget and the time, for the profile's own order
    const uint64_t began = clock_now_ns(), budget = given->limits.budget ? given->limits.budget : ORDERS_DEFAULT_BUDGET;
    const uint64_t deadline = given->limits.deadline_ns;
    struct search_request request = *given;
    struct error own_error = { 0 };
    struct telling telling;
    const uint64_t work = work_of_all(given);  // reported for all orders while some are searched
    telling_begin(&telling, given, &work, &request);
    request.limits.budget = 1 + budget / PARTS * OWN_PARTS;
    request.limits.deadline_ns = deadline ? 1 + deadline / PARTS * OWN_PARTS : 0;
    struct plan *own_plan = search_own_of_several(&request, &own_error);
    if (!own_plan && own_error.kind != ERROR_ANSWER) {
        *error = own_error;
        return NULL;
    }
    if (own_plan && given->wanted.any)
        return own_plan;
    const uint64_t gone = clock_now_ns() - began;
    request.limits.budget = 1 + budget - budget / PARTS * OWN_PARTS;
    request.limits.deadline_ns = !deadline ? 0 : gone < deadline ? deadline - gone : 1;
    uint64_t least_ns = 0;
    request.found.least_ns = given->found.least_ns ? given->found.least_ns : &least_ns;
    struct plan *plan = plan_search_wider(&request, own_plan, error);
    // If nothing is proved, the error of the profile's own order says most.
    if (!plan && error->kind != ERROR_MACHINE && *request.found.least_ns != UINT64_MAX)
        *error = own_error;
    return plan;
}

static struct plan *search_whole(const struct search_request *request, struct error *error)
{
    if (profile_has_one_order(request->profile))
        return search_one_order(request, error);
    // Pins, and cuts in front of exchanges, are for the profile's own order.
    if (request->wanted.own_order || request->pinned.count > 0 || search_exchange_cut(request) > 0
        || search_has_segments(request))
        return search_own_of_several(request, error);
    return search_orders(request, error);
}

// --- other memory than devices have ---------------------------------------------------------------

// Plans for devices with so many hundredths of their memory, or with ample memory (0). The plan is then given the
// real devices, whether it fits there or not. NULL without an error if there is none.
static struct plan *search_with_memory(const struct search_request *given, unsigned hundredths,
                                       struct plan_excess *excess, struct error *error)
{
    struct search_request request = *given;
    struct cluster *other = cluster_copy(given->cluster, error), *cluster = cluster_copy(given->cluster, error);
    struct error why = { 0 };
    for (size_t d = 0; other && d < other->device_count; d++) {
        uint64_t *bytes = &other->devices[d].memory_bytes;
        *bytes = hundredths ? *bytes / 100 * hundredths : JSON_MAX;
    }
    request.cluster = other;
    request.found = (struct search_found){ .work = given->found.work };
    struct plan *plan = other && cluster ? search_whole(&request, &why) : NULL;
    if (why.kind == ERROR_MACHINE)
        *error = why;
    cluster_free(other);
    if (!plan) {
        cluster_free(cluster);
        return NULL;
    }
    cluster_free(plan->cluster);
    plan->cluster = cluster;
    if (plan_predict(plan, given->profile, error) && plan_find_excess(plan, cluster, excess, error)
        && (excess->lacks_bytes > 0 || plan_evaluate(plan, given->profile, error)))
        return plan;
    error->kind = ERROR_MACHINE;
    plan_free(plan);
    return NULL;
}

// --- rungs ----------------------------------------------------------------------------------------

// A budget is spent by searches of fixed sizes (rungs). Each begins with the best plan of those before. The first
// only looks for a plan. Each further rung is so large that all rungs together have spent five times as much as
// before it:
//
//     size        1    4,800   19,200    96,000   480,000   2,400,000
//     together    1    4,800   24,000   120,000   600,000   3,000,000    the usual budget
//
// As many rungs are done as the budget has room for. Those shorter than usual are left out if as much was already
// spent before them. So a smaller budget does the first part of what a larger one does, and a plan is never worse for
// more.
enum {
    STEEPNESS = 5,
    LEAST_RUNG = 1000,
    LONG_RUNG = 50000,  // from here on, a rung may spend more to find a plan at all
};

// A row of searches: the best plan that they found, with which the next begins, and the work that they did.
struct ladder {
    uint64_t value_ns;
    uint32_t *cuts, *order;
    uint32_t stages;
    uint64_t work;
};

struct climb {
    const struct search_request *given;
    uint64_t usual, began_ns;
    struct plan *best;
    struct ladder own, ample;  // of searches within the memory limits, and of those without
    bool heeds_memory_first, is_ended;
    uint64_t bound_ns;         // UINT64_MAX: no plan fits
    enum search_stop stop;     // of the last plan, and why
    char stopped[sizeof((struct certificate *)0)->stopped];
    struct error why;          // why the last search within the memory limits found no plan
};

static bool remember(struct ladder *ladder, const struct plan *plan, size_t layers, struct error *error)
{
    if (ladder->cuts && ladder->value_ns <= plan->iteration_ns)
        return true;
    uint32_t *cuts = calloc(plan->stage_count + 1, sizeof cuts[0]);
    uint32_t *order = plan->order ? array_copy(plan->order, layers, sizeof order[0]) : NULL;
    for (size_t s = 0; cuts && s < plan->stage_count; s++)
        cuts[s + 1] = plan->stages[s].end;
    free(ladder->cuts);
    free(ladder->order);
    *ladder = (struct ladder){ plan->iteration_ns, cuts, order, (uint32_t)plan->stage_count, ladder->work };
    return (cuts && (order || !plan->order)) || error_no_memory(error, "a search");
}

// The request for a search of a rung, with one of `parts` parts of the time that is left.
static struct search_request rung_request(const struct climb *climb, uint64_t size, struct ladder *ladder,
                                          uint64_t parts)
{
    struct search_request request = *climb->given;
    const uint64_t gone = clock_now_ns() - climb->began_ns, deadline = climb->given->limits.deadline_ns;
    request.limits.budget = size;
    request.limits.deadline_ns = !deadline ? 0 : gone < deadline ? 1 + (deadline - gone) / parts : 1;
    request.wanted.any = size == 1;
    request.known = (struct search_known){ ladder->cuts, ladder->order, ladder->stages };
    request.found.work = &ladder->work;
    return request;
}

// The work that it takes to see whether a way may lead anywhere.
static uint64_t glance_of(const struct climb *climb)
{
    return climb->usual / (STEEPNESS * STEEPNESS);
}

static bool is_left_out(const struct climb *climb, const struct ladder *ladder, uint64_t together)
{
    return together < climb->usual && ladder->work >= together;
}

// Takes a plan that fits.
static void offer(struct climb *climb, struct plan *plan)
{
    climb->bound_ns = max_u64(climb->bound_ns, plan->certificate.lower_bound_ns);
    climb->stop = plan->certificate.stop;
    snprintf(climb->stopped, sizeof climb->stopped, "%s", plan->certificate.stopped);
    climb->best = better(climb->best, plan);
    climb->is_ended |= climb->best->iteration_ns <= climb->bound_ns;
}

// Looks for the plan without memory limits. If it fits, it is found however little more memory there is than it
// needs. If it is far from fitting, a longer look is not expected to find one that does. *found: whether it fits.
static bool climb_without_limits(struct climb *climb, uint64_t size, uint64_t together, uint64_t parts, bool *found,
                                 struct error *error)
{
    const struct search_request request = rung_request(climb, size, &climb->ample, parts);
    struct plan_excess excess = { 0 };
    *found = false;
    if (climb->heeds_memory_first || is_left_out(climb, &climb->ample, together))
        return true;
    struct plan *plan = search_with_memory(&request, 0, &excess, error);
    const bool is_far = !plan || excess.lacks_bytes > excess.has_bytes / 2;
    climb->heeds_memory_first = (is_far && together >= glance_of(climb)) || (plan && plan->certificate.proved);
    if (!plan)
        return error->kind == ERROR_NONE;
    if (!remember(&climb->ample, plan, request.profile->layer_count, error)) {
        plan_free(plan);
        return false;
    }
    *found = excess.lacks_bytes == 0 && plan->certificate.stop != STOP_DEADLINE;
    climb->bound_ns = max_u64(climb->bound_ns, plan->certificate.lower_bound_ns);
    if (excess.lacks_bytes == 0)
        offer(climb, plan);
    else
        plan_free(plan);
    return true;
}

static bool climb_within_limits(struct climb *climb, uint64_t size, uint64_t together, struct error *error)
{
    struct search_request request = rung_request(climb, size, &climb->own, 1);
    uint64_t least_ns = 0;
    if (is_left_out(climb, &climb->own, together))
        return true;
    request.found.least_ns = &least_ns;
    request.limits.is_part = size < LONG_RUNG && !request.limits.deadline_ns;
    climb->why = (struct error){ 0 };
    struct plan *plan = search_whole(&request, &climb->why);
    if (climb->why.kind == ERROR_MACHINE) {
        *error = climb->why;
        return false;
    }
    if (!plan) {
        climb->bound_ns = max_u64(climb->bound_ns, climb->best && least_ns == UINT64_MAX ? 0 : least_ns);
        // However soon that is known, what lacks least is worth a glance.
        climb->is_ended |= climb->bound_ns == UINT64_MAX && together >= glance_of(climb);
        return true;
    }
    if (!remember(&climb->own, plan, request.profile->layer_count, error)) {
        plan_free(plan);
        return false;
    }
    offer(climb, plan);
    return true;
}

// Checking a plan for thousands of ranks may take longer than the deadline.
static bool has_no_time(const struct climb *climb)
{
    const uint64_t deadline_ns = climb->given->limits.deadline_ns;
    return deadline_ns > 0 && clock_now_ns() - climb->began_ns >= deadline_ns;
}

// Searches with a little less memory, after a search that found nothing and proved nothing. What this finds fits, and
// a search near the limit may miss it. It bounds nothing, and the last search begins with it.
static bool climb_below_limits(struct climb *climb, uint64_t budget, struct error *error)
{
    static const unsigned hundredths[] = { 98, 95, 90 };
    for (size_t i = 0; i < sizeof hundredths / sizeof hundredths[0]; i++) {
        if (climb->best || climb->is_ended || has_no_time(climb))
            return true;
        const struct search_request request = rung_request(climb, 1, &climb->own, 1);
        struct plan_excess excess = { 0 };
        struct plan *plan = search_with_memory(&request, hundredths[i], &excess, error);
        if (!plan && error->kind != ERROR_NONE)
            return false;
        if (!plan)
            continue;
        certificate_bound(&plan->certificate, 0, STOP_BUDGET, "the budget is used up");  // finish_climb() says which
        if (!remember(&climb->own, plan, request.profile->layer_count, error)) {
            plan_free(plan);
            return false;
        }
        offer(climb, plan);
        return budget == 1 || climb_within_limits(climb, budget, UINT64_MAX, error);
    }
    return true;
}

static bool climb_one(struct climb *climb, uint64_t size, uint64_t together, struct error *error)
{
    bool found;
    return climb_without_limits(climb, size, together, 2, &found, error)
        && (found || climb_within_limits(climb, size, together, error));
}

static bool climb_is_over(const struct climb *climb)
{
    const struct search_limits *limits = &climb->given->limits;
    return climb->is_ended || (limits->interrupted && *limits->interrupted);
}

static bool climb_rungs(struct climb *climb, uint64_t budget, struct error *error)
{
    uint64_t before = 0, together = climb->usual;
    while (together / STEEPNESS >= LEAST_RUNG)
        together /= STEEPNESS;
    bool good = climb_one(climb, 1, 1, error);
    while (good && together <= budget && !climb_is_over(climb)) {
        good = climb_one(climb, together - before, together, error);
        before = together;
        together = multiply_clamped(together, STEEPNESS);
    }
    return good && climb_below_limits(climb, max_u64(before, 1), error);
}

// The work that a time allows is not the same twice. So there are no rungs, but a glance at whether a plan without
// limits may fit.
static bool climb_until(struct climb *climb, uint64_t budget, struct error *error)
{
    enum { GLANCE = 16 };
    bool found;
    return climb_without_limits(climb, 1 + budget / GLANCE, UINT64_MAX, 2 * GLANCE, &found, error)
        && ((climb->best && has_no_time(climb)) || climb_without_limits(climb, budget, UINT64_MAX, 2, &found, error))
        && (found || climb->is_ended || (climb->best && has_no_time(climb))
            || (climb_within_limits(climb, budget, UINT64_MAX, error) && climb_below_limits(climb, budget, error)));
}

static struct plan *finish_climb(struct climb *climb, struct error *error)
{
    const struct search_limits *limits = &climb->given->limits;
    struct plan *plan = climb->best;
    if (plan) {
        if (limits->interrupted && *limits->interrupted) {
            climb->stop = STOP_INTERRUPTED;
            snprintf(climb->stopped, sizeof climb->stopped, "interrupted");
        } else if (climb->stop == STOP_BUDGET) {
            snprintf(climb->stopped, sizeof climb->stopped, "the budget of %llu units of work is used up",
                     (unsigned long long)(limits->budget ? limits->budget : climb->usual));
        }
        certificate_bound(&plan->certificate, climb->bound_ns, climb->stop, climb->stopped);
    } else {
        *error = climb->why;
    }
    if (climb->given->found.least_ns)
        *climb->given->found.least_ns = plan ? plan->certificate.lower_bound_ns : climb->bound_ns;
    return plan;
}

static struct plan *search_in_rungs(const struct search_request *given, struct error *error)
{
    const bool has_one = profile_has_one_order(given->profile) || given->wanted.own_order;
    const uint64_t usual = has_one ? SEARCH_DEFAULT_BUDGET : ORDERS_DEFAULT_BUDGET;
    const uint64_t budget = given->limits.budget ? given->limits.budget : usual;
    struct search_request request = *given;
    struct climb climb = { .given = &request, .usual = usual, .began_ns = clock_now_ns(),
                           .heeds_memory_first = given->network || given->storage.activations_on_host };
    struct telling telling;
    telling_begin(&telling, given, &climb.bound_ns, &request);
    const bool good = given->limits.deadline_ns ? climb_until(&climb, budget, error)
                                                : climb_rungs(&climb, budget, error);
    if (given->found.work)
        *given->found.work += climb.own.work + climb.ample.work;
    free(climb.own.cuts);
    free(climb.own.order);
    free(climb.ample.cuts);
    free(climb.ample.order);
    if (good)
        return finish_climb(&climb, error);
    plan_free(climb.best);
    return NULL;
}

// --- any request ----------------------------------------------------------------------------------

struct plan *plan_search(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    if (!check(&request, error))
        return NULL;
    request.answers = recompute_answers_create(error);
    if (!request.answers)
        return NULL;
    const bool is_whole = !request.wanted.never_worse || request.wanted.any || request.wanted.below_ns;
    struct plan *plan = is_whole ? search_whole(&request, error) : search_in_rungs(&request, error);
    recompute_answers_free(request.answers);
    return plan;
}

void plan_search_blame_deadline(struct error *error)
{
    if (error->kind == ERROR_ANSWER && error->is_late)
        error->kind = ERROR_MACHINE;
}
