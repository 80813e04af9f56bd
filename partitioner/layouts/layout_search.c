#include "partitioner/layouts/layout_search.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "partitioner/cost/variant.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/layouts/layout_moves.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "schedules/generators/generate.h"

// --- searching one --------------------------------------------------------------------

bool layout_search_is_over(struct layout_search *search)
{
    const bool any_will_do = search->request->wanted.any && search->best;
    return any_will_do || context_is_over(&search->context, search->context.budget);
}

// Whether one more layout may be searched after so many. Before there is any plan a few may, even if the search has
// ended.
static bool may_try(struct layout_search *search, size_t tried)
{
    enum { AT_LEAST = 4 };
    return !layout_search_is_over(search) || (!search->best && tried < AT_LEAST);
}

// Why the search ended before it had tried everything, or NULL.
static const char *stopped_by(struct layout_search *search)
{
    if (search->request->wanted.any && search->best)
        return "the first plan was enough";
    return context_why(&search->context, NULL);
}

// Takes the plan if it is the best so far.
static void judge(struct layout_search *search, struct plan *plan)
{
    if (plan && plan->iteration_ns < search->best_ns) {
        plan_free(search->best);
        search->best = plan;
        search->best_ns = plan->iteration_ns;
        return;
    }
    plan_free(plan);
}

static bool note_shortage(struct layout_search *search, const struct layout *layout,
                          const struct search_shortage *shortage, struct error *error)
{
    if (!shortage->is_known || search->best || shortage->lacks_bytes >= search->least_lacking)
        return true;
    search->least_lacking = shortage->lacks_bytes;
    search->least_lacking_rank = shortage->rank;
    layouts_clear(&search->nearest);
    return layout_add(&search->nearest, layout, error);
}

// The request for the plans of one layout that are quicker than the best.
static struct search_request request_of(const struct layout_search *search, const struct layout *layout,
                                        uint64_t budget)
{
    const struct search_context *context = &search->context;
    const uint64_t rest = context->budget > context->work ? context->budget - context->work : 1;
    struct search_request request = layout_request(search->request, layout);
    request.wanted.below_ns = search->best_ns;
    request.limits.budget = budget < rest ? budget : rest;
    if (context->deadline_ns) {
        const uint64_t now = clock_now_ns();
        request.limits.deadline_ns = context->deadline_ns > now ? context->deadline_ns - now : 1;
    }
    return request;
}

// Searches the plans of one layout. Keeps the best plan of all, and what is now known of the layout.
static bool search_one(struct layout_search *search, struct layout *layout, uint64_t budget, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    uint64_t least = 0;
    struct search_request request = request_of(search, layout, budget);
    request.found.work = &search->context.work;
    request.found.least_ns = &least;
    request.found.shortage = &shortage;
    search->context.work += 20 + (uint64_t)request.micro_batches * request.ranks / 8;
    struct plan *plan = cut_search(&request, request.wanted.all_orders ? CUT_ALL_ORDERS : CUT_OWN_ORDER, &why);
    if (!plan && why.kind == ERROR_MACHINE) {
        *error = why;
        return false;
    }
    // A layout may be refused for something that others are not, such as an iteration that no document can hold.
    if (!plan && why.kind == ERROR_INPUT && search->refused.kind == ERROR_NONE)
        search->refused = why;
    if (plan && !plan->certificate.proved && plan->certificate.stopped[0])
        snprintf(search->why_open, sizeof search->why_open, "%s", plan->certificate.stopped);
    judge(search, plan);
    if (!note_shortage(search, layout, &shortage, error))
        return false;
    layout->bound_ns = least > layout->bound_ns ? least : layout->bound_ns;
    return true;
}

bool layout_search_early(struct layout_search *search, struct layouts *found, struct error *error)
{
    enum { PART = 24 };
    const uint64_t since = clock_now_ns();
    if (search->context.deadline_ns == 0 || found->count == 0)
        return true;
    const bool good = search_one(search, &found->at[0], search->context.budget / PART, error);
    context_reserve(&search->context, 2 * (clock_now_ns() - since));
    return good;
}

// --- all of a list --------------------------------------------------------------------

static int compare(const void *left, const void *right)
{
    const struct layout *a = *(struct layout *const *)left, *b = *(struct layout *const *)right;
    if (a->estimate_ns != b->estimate_ns)
        return a->estimate_ns < b->estimate_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

// Searches in rounds. Each has four times the budget of the one before, for the layouts which that left open.
static bool search_list(struct layout_search *search, struct layout **order, size_t count, struct error *error)
{
    enum { FIRST_PART = 64 };
    for (uint64_t part = FIRST_PART; part > 0; part /= 4) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++) {
            if (order[i]->bound_ns >= search->best_ns)
                continue;
            if (!may_try(search, i))
                return true;
            if (!search_one(search, order[i], search->context.budget / part, error))
                return false;
            left += order[i]->bound_ns < search->best_ns;
        }
        if (left == 0)
            return true;
    }
    return true;
}

// If no stage has replicas, the search of cuts knows most. What it finds there is what the others must beat.
static bool search_straight(struct layout_search *search, struct layouts *all, struct error *error)
{
    enum { PART = 6 };
    for (size_t i = 0; i < all->count; i++) {
        struct layout *now = &all->at[i];
        if (now->replicas && now->stages == now->ranks && may_try(search, 0))
            return search_one(search, now, search->context.budget / PART, error);
    }
    return true;
}

static bool search_all(struct layout_search *search, struct layouts *all, struct error *error)
{
    struct layout **order = calloc(all->count + 1, sizeof(struct layout *));
    bool good = order || error_no_memory(error, "the layouts of a plan");
    for (size_t i = 0; good && i < all->count; i++) {
        order[i] = &all->at[i];
        good = layout_bound(search->bounds, order[i], error);
        if (search->request->wanted.all_orders)  // a layout's bound is only of the profile's own order
            order[i]->bound_ns = search->bound_ns;
    }
    if (good) {
        qsort(order, all->count, sizeof order[0], compare);
        good = search_straight(search, all, error) && search_list(search, order, all->count, error);
    }
    uint64_t bound = UINT64_MAX;
    for (size_t i = 0; good && i < all->count; i++)
        bound = order[i]->bound_ns < bound ? order[i]->bound_ns : bound;
    if (bound > search->bound_ns)
        search->bound_ns = bound;
    free(order);
    return good;
}

// --- the answer -----------------------------------------------------------------------

static void certify(struct layout_search *search)
{
    const char *stopped = stopped_by(search), *why = "there are too many arrangements to try them all";
    if (stopped)
        why = stopped;
    else if (search->is_listed && search->why_open[0])
        why = search->why_open;
    const enum search_stop stop = stopped ? context_stop(&search->context) : STOP_OTHER;
    certificate_bound(&search->best->certificate, search->bound_ns, stop, why);
}

// Nothing fits: the layout that lacks least says why. If its search was cut short before, it may find a plan now.
static bool explain(struct layout_search *search, const struct layouts *tried, struct error *error)
{
    char more[160] = "";  // what was not tried to the end may still fit
    const char *stopped = stopped_by(search);
    const bool is_open = search->bound_ns != UINT64_MAX;
    const bool is_late = is_open && context_stop(&search->context) == STOP_DEADLINE;
    if (is_open && (tried->count > 0 || stopped))
        snprintf(more, sizeof more, "%s%s; nothing is proved, a longer search may find one",
                 stopped ? "; the search ended early: " : "", stopped ? stopped : "");
    if (search->nearest.count == 0 && search->refused.kind != ERROR_NONE) {
        *error = search->refused;
        return false;
    }
    if (search->nearest.count == 0) {
        const char *why = "there is no arrangement of so many devices";
        if (tried->count > 0)
            why = "no plan was found with any of the arrangements that were tried";
        else if (stopped)
            why = "no arrangement was tried yet";
        error_set_kind(error, ERROR_ANSWER, "%s%s", why, more);
        error->is_late |= is_late;
        return false;
    }
    const struct search_request request = layout_request(search->request, &search->nearest.at[0]);
    judge(search, cut_search(&request, request.wanted.all_orders ? CUT_ALL_ORDERS : CUT_OWN_ORDER, error));
    if (!search->best) {
        if (search->request->found.shortage)
            *search->request->found.shortage = (struct search_shortage){
                .is_known = true, .rank = search->least_lacking_rank, .lacks_bytes = search->least_lacking };
        error_at(error, "no arrangement was found to fit%s; the nearest, of %u ranks", more,
                 search->nearest.at[0].ranks);
        error->is_late |= is_late;
    }
    return search->best != NULL;
}

static bool check(const struct search_request *request, struct error *error)
{
    const struct generator *generator = search_generator(request);
    if (request->free.replicas && !generator_takes_replicas(generator, error))
        return false;
    if (request->network)
        return error_set(error, "links are given between ranks, so that their devices cannot be chosen");
    if (request->layout.variants && (request->free.replicas || request->free.fewer || request->free.variants))
        return error_set(error, "the variants of stages are given; so must be the replicas, and nothing but devices"
                                " can be chosen");
    if (request->layout.variants && !generator->takes_replicas)
        return error_set(error, "the variants of stages are given; the devices of %s must be, too", generator->name);
    return true;
}

// How many devices there are to use, if the variants of stages are given.
static uint32_t count_devices(const struct search_request *request)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < request->layout.stages; s++)
        count += (request->layout.replicas ? request->layout.replicas[s] : 1)
               * variant_devices(request->profile, request->layout.variants[s]);
    return count;
}

// Searches the best few that were found, until a plan takes what it was timed to: then the others are no better.
static bool search_found(struct layout_search *search, struct layouts *found, struct error *error)
{
    enum { MOST = 3, PART = 24 };
    for (size_t i = 0; i < found->count && i < MOST && may_try(search, i); i++) {
        if (!search_one(search, &found->at[i], search->context.budget / PART, error))
            return false;
        if (search->best_ns - search->best_ns / 1000 <= found->at[0].estimate_ns)
            break;
    }
    return true;
}

// If a schedule itself says which ranks hold which stage, and there are many devices: searches them in several
// orders.
static bool search_orders(struct layout_search *search, struct layouts *tried, struct error *error)
{
    enum { PART = 8 };
    const struct search_request *request = search->request;
    struct schedule *order = search_order(request, request->micro_batches, error);
    struct layout layout = { .ranks = request->ranks, .device_count = request->ranks };
    if (!order)
        return false;
    layout.stages = order->stages;
    layout.variants = calloc(layout.stages, sizeof layout.variants[0]);
    layout.devices = calloc(request->cluster->device_count + 1, sizeof layout.devices[0]);
    bool good = (layout.variants && layout.devices) || error_no_memory(error, "the layouts of a plan");
    for (unsigned sequence = 0; good && sequence < LAYOUT_SEQUENCES && may_try(search, sequence); sequence++) {
        layout_order_devices(request, sequence, layout.devices);
        layout.bound_ns = 0;
        good = layout_add(tried, &layout, error)
            && search_one(search, &layout, search->context.budget / PART, error);
    }
    schedule_free(order);
    layout_clear(&layout);
    return good;
}

// If there are too many layouts to list: searches the best of those that were found, with up to a quarter of the
// budget, unless its plan is known already.
static bool search_many(struct layout_search *search, struct layouts *all, struct error *error)
{
    if (all->count == 0)
        return search_orders(search, all, error);
    const bool is_as_timed = search->best_ns - search->best_ns / 1000 <= all->at[0].estimate_ns;
    return is_as_timed || layout_search_is_over(search)
        || search_one(search, &all->at[0], search->context.budget / 4, error);
}

static bool choose(struct layout_search *search, struct layouts *all, struct error *error)
{
    enum { MOST = 4000 };
    struct layout_names names;
    struct layouts found = { 0 };
    if (!layout_names_read(search->request, &names, error))
        return false;
    search->names = &names;
    search->bounds = layout_bounds_create(search->request, &names, error);
    search->bound_ns = search->bounds ? layout_bound_of_all(search->bounds) : 0;
    bool good = search->bounds && layouts_list(search->request, &names, MOST, all, error);
    search->is_listed = all->complete;
    // The model does not know what goes to the hosts and back. It is then better than nothing only if there is no
    // list.
    const bool is_timed = layout_model_knows(search->request) && !search->request->wanted.all_orders
                       && !(all->complete && (all->count < 2 || search->request->storage.activations_on_host));
    if (good && is_timed)
        good = layouts_find(search, all->count, &found, error) && search_found(search, &found, error);
    if (good && all->complete) {
        good = search_all(search, all, error);
    } else if (good) {
        layouts_clear(all);
        *all = found;
        found = (struct layouts){ 0 };
        good = search_many(search, all, error);
    }
    layouts_clear(&found);
    layout_bounds_free(search->bounds);
    return good;
}

struct plan *layout_search(const struct search_request *given, struct error *error)
{
    struct search_request copy = *given;
    const struct search_request *request = &copy;
    if (given->layout.variants)
        copy.ranks = count_devices(given);
    struct layout_search search = { .request = request, .best_ns = UINT64_MAX, .least_lacking = UINT64_MAX };
    struct layouts all = { 0 };
    struct telling telling;
    search.context = context_of(given, SEARCH_DEFAULT_BUDGET);
    search.context.progress = NULL;  // its parts report it
    telling_begin(&telling, given, &search.bound_ns, &copy);
    const bool good = check(request, error) && choose(&search, &all, error);
    if (good && (search.best || explain(&search, &all, error)))
        certify(&search);
    if (request->found.work)
        *request->found.work += search.context.work;
    if (good && request->found.least_ns)
        *request->found.least_ns = search.bound_ns < search.best_ns ? search.bound_ns : search.best_ns;
    layouts_clear(&all);
    layouts_clear(&search.nearest);
    if (!good) {
        plan_free(search.best);
        return NULL;
    }
    return search.best;
}
