#include "partitioner/layouts/arrangement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "partitioner/layouts/arrangement_search.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "partitioner/cost/variant.h"
#include "schedules/generators/generate.h"

// --- searching one --------------------------------------------------------------------

static bool is_stopped(struct choosing *choosing)
{
    const struct search_request *request = choosing->request;
    if (!choosing->stopped && request->limits.interrupted && *request->limits.interrupted)
        choosing->stopped = "interrupted";
    if (!choosing->stopped && request->wanted.any && choosing->best)
        choosing->stopped = "the first plan was enough";
    if (!choosing->stopped && choosing->deadline_ns && clock_now_ns() > choosing->deadline_ns)
        choosing->stopped = "the deadline has passed";
    return choosing->stopped != NULL;
}

bool choosing_must_stop(struct choosing *choosing)
{
    if (!is_stopped(choosing) && choosing->work >= choosing->budget)
        choosing->stopped = "the budget is used up";
    return choosing->stopped != NULL;
}

bool choosing_may_try(struct choosing *choosing, size_t tried)
{
    enum { AT_LEAST = 4 };
    return !choosing_must_stop(choosing) || (!choosing->best && tried < AT_LEAST);
}

// Takes the plan if it is the best so far.
static void judge(struct choosing *choosing, struct plan *plan)
{
    if (plan && plan->iteration_ns < choosing->best_ns) {
        plan_free(choosing->best);
        choosing->best = plan;
        choosing->best_ns = plan->iteration_ns;
        return;
    }
    plan_free(plan);
}

static bool note_shortage(struct choosing *choosing, const struct arrangement *arrangement,
                          const struct search_shortage *shortage, struct error *error)
{
    if (!shortage->is_known || choosing->best || shortage->lacks_bytes >= choosing->least_lacking)
        return true;
    choosing->least_lacking = shortage->lacks_bytes;
    choosing->least_lacking_rank = shortage->rank;
    arrangements_clear(&choosing->nearest);
    return arrangement_add(&choosing->nearest, arrangement, error);
}

bool choosing_search(struct choosing *choosing, struct arrangement *arrangement, uint64_t budget, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    uint64_t least = 0;
    struct search_request request = arrangement_request(choosing->request, arrangement);
    request.wanted.below_ns = choosing->best_ns;
    request.limits.budget = budget;
    request.limits.deadline_ns = choosing->deadline_ns;
    if (choosing->deadline_ns) {
        const uint64_t now = clock_now_ns();
        request.limits.deadline_ns = choosing->deadline_ns > now ? choosing->deadline_ns - now : 1;
    }
    request.found.work = &choosing->work;
    request.found.least_ns = &least;
    request.found.shortage = &shortage;
    choosing->work += 20 + (uint64_t)request.micro_batches * request.ranks / 8;
    struct plan *plan = cut_search(&request, request.wanted.all_orders ? CUT_ALL_ORDERS : CUT_OWN_ORDER, &why);
    if (!plan && why.kind == ERROR_MACHINE) {
        *error = why;
        return false;
    }
    // What one of them is refused for, such as an iteration that no document can hold, others may not be.
    if (!plan && why.kind == ERROR_INPUT && choosing->refused.kind == ERROR_NONE)
        choosing->refused = why;
    if (plan && !plan->certificate.proved && plan->certificate.stopped[0])
        snprintf(choosing->why_open, sizeof choosing->why_open, "%s", plan->certificate.stopped);
    judge(choosing, plan);
    if (!note_shortage(choosing, arrangement, &shortage, error))
        return false;
    arrangement->visits++;
    arrangement->bound_ns = least > arrangement->bound_ns ? least : arrangement->bound_ns;
    return true;
}

// --- all of a list --------------------------------------------------------------------

static int compare(const void *left, const void *right)
{
    const struct arrangement *a = *(struct arrangement *const *)left, *b = *(struct arrangement *const *)right;
    if (a->estimate_ns != b->estimate_ns)
        return a->estimate_ns < b->estimate_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool is_open(const struct choosing *choosing, const struct arrangement *arrangement)
{
    return !arrangement->is_closed && arrangement->bound_ns < choosing->best_ns;
}

// In rounds, each with four times the budget for those that the one before left open.
static bool search_list(struct choosing *choosing, struct arrangement **order, size_t count, struct error *error)
{
    enum { FIRST_PART = 64 };
    for (uint64_t part = FIRST_PART; part > 0; part /= 4) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_open(choosing, order[i]))
                continue;
            if (!choosing_may_try(choosing, i))
                return true;
            const uint64_t rest = choosing->budget > choosing->work ? choosing->budget - choosing->work : 1;
            const uint64_t budget = choosing->budget / part;
            if (!choosing_search(choosing, order[i], budget < rest ? budget : rest, error))
                return false;
            left += is_open(choosing, order[i]);
        }
        if (left == 0)
            return true;
    }
    return true;
}

// Where no stage has replicas the search knows most: what it finds there is what the others must beat.
static bool search_straight(struct choosing *choosing, struct arrangements *all, struct error *error)
{
    enum { PART = 6 };
    for (size_t i = 0; i < all->count; i++) {
        struct arrangement *now = &all->at[i];
        if (now->replicas && now->stages == now->ranks && choosing_may_try(choosing, 0))
            return choosing_search(choosing, now, choosing->budget / PART, error);
    }
    return true;
}

static bool search_all(struct choosing *choosing, struct arrangements *all, struct error *error)
{
    struct arrangement **order = calloc(all->count + 1, sizeof(struct arrangement *));
    bool good = order || error_no_memory(error, "the arrangements of a plan");
    for (size_t i = 0; good && i < all->count; i++) {
        order[i] = &all->at[i];
        good = arrangement_bound(choosing->bounds, order[i], error);
        if (choosing->request->wanted.all_orders)  // bounds of one are of its own order
            order[i]->bound_ns = choosing->bound_ns;
    }
    if (good) {
        qsort(order, all->count, sizeof order[0], compare);
        good = search_straight(choosing, all, error) && search_list(choosing, order, all->count, error);
    }
    uint64_t bound = UINT64_MAX;
    for (size_t i = 0; good && i < all->count; i++)
        bound = order[i]->bound_ns < bound ? order[i]->bound_ns : bound;
    if (bound > choosing->bound_ns)
        choosing->bound_ns = bound;
    free(order);
    return good;
}

// --- the answer -----------------------------------------------------------------------

static void certify(const struct choosing *choosing)
{
    const uint64_t value = choosing->best_ns, bound = choosing->bound_ns < value ? choosing->bound_ns : value;
    struct certificate *certificate = &choosing->best->certificate;
    certificate->lower_bound_ns = bound;
    certificate->gap = value > 0 ? (double)(value - bound) / (double)value : 0;
    certificate->proved = bound == value;
    certificate->stopped[0] = '\0';
    const char *why = "there are too many arrangements to try them all";
    if (choosing->stopped)
        why = choosing->stopped;
    else if (choosing->is_listed && choosing->why_open[0])
        why = choosing->why_open;
    if (!certificate->proved)
        snprintf(certificate->stopped, sizeof certificate->stopped, "%s", why);
}

// Without a plan. What nobody has tried to the end may still fit, and then that is said.
static void say_open(const struct choosing *choosing, const struct arrangements *tried, struct text *text)
{
    if (choosing->bound_ns == UINT64_MAX || (tried->count == 0 && !choosing->stopped))
        return;
    text_add(text, "%s%s; nothing is proved, a longer search may find one",
             choosing->stopped ? "; the search ended early: " : "", choosing->stopped ? choosing->stopped : "");
}

// Nothing fits: the one that lacks least says why. Where its search was cut short before, it may find a plan now.
static bool explain(struct choosing *choosing, const struct arrangements *tried, struct error *error)
{
    struct text open = { 0 };
    say_open(choosing, tried, &open);
    const char *more = open.data && !open.failed ? open.data : "";
    if (choosing->nearest.count == 0 && choosing->refused.kind != ERROR_NONE) {
        *error = choosing->refused;
        text_clear(&open);
        return false;
    }
    if (choosing->nearest.count == 0) {
        const char *why = "there is no arrangement of so many devices";
        if (tried->count > 0)
            why = "no plan was found with any of the arrangements that were tried";
        else if (choosing->stopped)
            why = "no arrangement was tried yet";
        error_set_kind(error, ERROR_ANSWER, "%s%s", why, more);
        text_clear(&open);
        return false;
    }
    const struct search_request request = arrangement_request(choosing->request, &choosing->nearest.at[0]);
    judge(choosing, cut_search(&request, request.wanted.all_orders ? CUT_ALL_ORDERS : CUT_OWN_ORDER, error));
    if (!choosing->best) {
        if (choosing->request->found.shortage)
            *choosing->request->found.shortage =
                (struct search_shortage){ true, choosing->least_lacking_rank, choosing->least_lacking };
        error_at(error, "no arrangement was found to fit%s; the nearest, of %u ranks", more,
                 choosing->nearest.at[0].ranks);
    }
    text_clear(&open);
    return choosing->best != NULL;
}

static bool check(const struct search_request *request, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    if (request->free.replicas && generator && !generator_takes_replicas(generator, error))
        return false;
    if (request->network)
        return error_set(error, "links are given between ranks, so that their devices cannot be chosen");
    if (request->layout.variants && (request->free.replicas || request->free.fewer || request->free.variants))
        return error_set(error, "the variants of stages are given; so must be the replicas, and nothing but devices"
                                " can be chosen");
    if (request->layout.variants && generator && !generator->takes_replicas)
        return error_set(error, "the variants of stages are given; the devices of %s must be, too", generator->name);
    return true;
}

// How many devices there are to use, where the variants of stages are given.
static uint32_t count_devices(const struct search_request *request)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < request->layout.stages; s++)
        count += (request->layout.replicas ? request->layout.replicas[s] : 1)
               * variant_devices(request->profile, request->layout.variants[s]);
    return count;
}

static bool choose(struct choosing *choosing, struct arrangements *all, struct error *error)
{
    enum { MOST = 4000 };
    struct arrangement_names names;
    if (!arrangement_names_read(choosing->request, &names, error))
        return false;
    choosing->names = &names;
    choosing->bounds = arrangement_bounds_create(choosing->request, &names, error);
    choosing->bound_ns = choosing->bounds ? arrangement_bound_of_all(choosing->bounds) : 0;
    bool good = choosing->bounds && arrangements_list(choosing->request, &names, MOST, all, error);
    choosing->is_listed = all->complete;
    if (good && all->complete) {
        good = search_all(choosing, all, error);
    } else if (good) {
        arrangements_clear(all);
        good = choosing_many(choosing, all, error);
    }
    arrangement_bounds_free(choosing->bounds);
    return good;
}

struct plan *arrangement_search(const struct search_request *given, struct error *error)
{
    struct search_request copy = *given;
    const struct search_request *request = &copy;
    if (given->layout.variants)
        copy.ranks = count_devices(given);
    struct choosing choosing = { .request = request, .best_ns = UINT64_MAX, .least_lacking = UINT64_MAX };
    struct arrangements all = { 0 };
    struct telling telling;
    telling_begin(&telling, given, &choosing.bound_ns, &copy);
    choosing.budget = request->limits.budget ? request->limits.budget : SEARCH_DEFAULT_BUDGET;
    choosing.deadline_ns = request->limits.deadline_ns ? clock_now_ns() + request->limits.deadline_ns : 0;
    const bool good = check(request, error) && choose(&choosing, &all, error);
    if (good && (choosing.best || explain(&choosing, &all, error)))
        certify(&choosing);
    if (request->found.work)
        *request->found.work += choosing.work;
    if (good && request->found.least_ns)
        *request->found.least_ns = choosing.bound_ns < choosing.best_ns ? choosing.bound_ns : choosing.best_ns;
    arrangements_clear(&all);
    arrangements_clear(&choosing.nearest);
    if (!good) {
        plan_free(choosing.best);
        return NULL;
    }
    return choosing.best;
}
