#include "partitioner/sweep/plan_front.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/plan_search.h"
#include "partitioner/search/search_request.h"
#include "profiler/profile_reorder.h"

// The searches on one number of devices, from ample memory down.
struct descent {
    uint32_t ranks;
    // Limit of the next search; peak of the plan that the last search found, 0 if none
    uint64_t limit_bytes, peak_bytes;
    bool is_done;
};

// A front while it is being found.
struct finding {
    const struct front_request *request;
    struct plan_front *front;
    struct cluster *cluster;  // the request's, with less memory
    size_t capacity;          // of points
    uint64_t until_ns;        // when the whole search ends; 0: when it is done
    uint64_t share_ns;        // when the current descent ends, or waits for time that others leave; 0 likewise
    bool is_cut;              // something was left unsearched
    struct error reason;      // why there was no plan on the number of devices that was tried last
};

// --- points -------------------------------------------------------------------------------

void front_free(struct plan_front *front)
{
    if (!front)
        return;
    for (size_t i = 0; i < front->count; i++)
        plan_free(front->points[i].plan);
    free(front->points);
    free(front);
}

uint32_t front_recomputed(const struct plan_stage *stage)
{
    uint32_t layers = 0;
    for (size_t i = 0; i < stage->recompute_count; i++)
        layers += stage->recompute[i].end - stage->recompute[i].first;
    return layers;
}

// Takes ownership of the plan.
static bool add_point(struct finding *finding, struct plan *plan, uint64_t limit_bytes, uint64_t *peak_bytes,
                      struct error *error)
{
    struct plan_front *front = finding->front;
    uint32_t rank;
    *peak_bytes = plan_peak_bytes(plan, &rank, error);
    if (!array_reserve(&front->points, &finding->capacity, front->count + 1, sizeof front->points[0]))
        error_no_memory(error, "a front");
    if (error->kind != ERROR_NONE) {
        plan_free(plan);
        return false;
    }
    front->points[front->count++] = (struct front_point){ plan, limit_bytes, *peak_bytes, false };
    return true;
}

// --- which of them count --------------------------------------------------------------------

// Whether `a` is at least as good in everything. If both are equal, the first of them beats the other.
static bool beats(const struct front_point *a, const struct front_point *b)
{
    const struct plan *x = a->plan, *y = b->plan;
    if (a == b || x->ranks > y->ranks || a->peak_bytes > b->peak_bytes || x->iteration_ns > y->iteration_ns)
        return false;
    return x->ranks < y->ranks || a->peak_bytes < b->peak_bytes || x->iteration_ns < y->iteration_ns || a < b;
}

// Whether no other point beats it; with `by_as_many`, no other point on as many devices.
static bool is_unbeaten(const struct plan_front *front, const struct front_point *point, bool by_as_many)
{
    for (size_t k = 0; k < front->count; k++)
        if ((!by_as_many || front->points[k].plan->ranks == point->plan->ranks) && beats(&front->points[k], point))
            return false;
    return true;
}

static int by_ranks_and_memory(const void *a, const void *b)
{
    const struct front_point *x = a, *y = b;
    if (x->plan->ranks != y->plan->ranks)
        return x->plan->ranks < y->plan->ranks ? -1 : 1;
    return (x->peak_bytes < y->peak_bytes) - (x->peak_bytes > y->peak_bytes);
}

// Drops points that another point on as many devices beats, sorts the rest, and marks those on the overall front.
static void judge(struct plan_front *front)
{
    for (size_t i = 0; i < front->count; i++)
        front->points[i].is_on_front = is_unbeaten(front, &front->points[i], true);
    size_t kept = 0;
    for (size_t i = 0; i < front->count; i++) {
        if (front->points[i].is_on_front)
            front->points[kept++] = front->points[i];
        else
            plan_free(front->points[i].plan);
    }
    front->count = kept;
    if (kept > 0)
        qsort(front->points, kept, sizeof front->points[0], by_ranks_and_memory);
    for (size_t i = 0; i < front->count; i++)
        front->points[i].is_on_front = is_unbeaten(front, &front->points[i], false);
}

// --- the descent ------------------------------------------------------------------------------

static bool is_interrupted(const struct finding *finding)
{
    return finding->request->search->limits.interrupted && *finding->request->search->limits.interrupted;
}

static bool is_past(uint64_t until_ns)
{
    return until_ns && clock_now_ns() >= until_ns;
}

static bool is_ended(const struct finding *finding)
{
    return is_interrupted(finding) || is_past(finding->until_ns);
}

// Does not stop before there is a point, since a search whose time has ended still makes its first plan.
static bool must_stop(const struct finding *finding)
{
    return finding->front->count > 0 && is_ended(finding);
}

static bool must_wait(const struct finding *finding)
{
    return finding->front->count > 0 && (is_interrupted(finding) || is_past(finding->share_ns));
}

// The plan under a limit, or NULL. In that case `lacks_bytes` says what the plan that lacks least lacks; 0 if that is
// not known.
static struct plan *plan_under(struct finding *finding, uint32_t ranks, uint64_t limit_bytes, uint64_t *lacks_bytes,
                               struct error *error)
{
    const struct search_request *given = finding->request->search;
    struct search_shortage shortage = { 0 };
    struct search_request search = *given;
    search.cluster = finding->cluster;
    search.ranks = ranks;
    search.found.shortage = &shortage;
    search.limits.budget = finding->front->budget;
    const uint64_t now = clock_now_ns();
    if (finding->share_ns)
        search.limits.deadline_ns = finding->share_ns > now ? finding->share_ns - now : 1;
    for (size_t i = 0; i < given->cluster->device_count; i++)
        finding->cluster->devices[i].memory_bytes = min_u64(given->cluster->devices[i].memory_bytes, limit_bytes);
    if (finding->request->progress)
        finding->request->progress(finding->request->self, ranks, limit_bytes);
    finding->reason = (struct error){ 0 };
    struct plan *plan = plan_search(&search, &finding->reason);
    if (!plan && finding->reason.kind == ERROR_MACHINE)
        error_hand_on(error, &finding->reason);
    *lacks_bytes = shortage.is_known ? shortage.lacks_bytes : 0;
    return plan;
}

// A byte less than the plan takes, or less by the resolution.
static uint64_t next_limit(const struct finding *finding, uint64_t peak_bytes)
{
    const uint64_t step = (uint64_t)((unsigned __int128)peak_bytes * finding->request->resolution_ppm / 1000000);
    return peak_bytes - (step > 0 ? step : 1);
}

// With a resolution the last step may have gone too far. On a chain, the least shortage says how far. If layers have
// several orders, it does so for one of them only. From there on the step is halved, down to an eighth of it.
static bool find_least(struct finding *finding, uint32_t ranks, uint64_t none_bytes, uint64_t lacks_bytes,
                       uint64_t fits_bytes, struct error *error)
{
    const bool is_chain = profile_has_one_order(finding->request->search->profile);
    const uint64_t close_bytes = max_u64((fits_bytes - none_bytes) / 8, 1);
    bool is_said = lacks_bytes > 0 && none_bytes + lacks_bytes < fits_bytes;
    while ((is_said || !is_chain) && fits_bytes - none_bytes > close_bytes && !must_wait(finding)) {
        const uint64_t limit_bytes = none_bytes + (is_said ? lacks_bytes : (fits_bytes - none_bytes) / 2);
        uint64_t ignored;
        struct plan *plan = plan_under(finding, ranks, limit_bytes, &ignored, error);
        if (!plan && error->kind != ERROR_NONE)
            return false;
        if (!plan)
            none_bytes = limit_bytes;
        else if (!add_point(finding, plan, limit_bytes, &fits_bytes, error))
            return false;
        is_said = false;
    }
    return true;
}

// Continues from where the descent was left.
static bool descend(struct finding *finding, struct descent *descent, struct error *error)
{
    uint64_t lacks_bytes = 0;
    while (descent->limit_bytes > 0 && !must_wait(finding)) {
        struct plan *plan = plan_under(finding, descent->ranks, descent->limit_bytes, &lacks_bytes, error);
        if (!plan && is_past(finding->share_ns))
            return error->kind == ERROR_NONE;  // whether anything fits is not known yet
        if (!plan) {
            descent->is_done = true;
            return error->kind == ERROR_NONE
                && (descent->peak_bytes == 0 || find_least(finding, descent->ranks, descent->limit_bytes, lacks_bytes,
                                                           descent->peak_bytes, error));
        }
        if (!add_point(finding, plan, descent->limit_bytes, &descent->peak_bytes, error))
            return false;
        descent->limit_bytes = next_limit(finding, descent->peak_bytes);
    }
    descent->is_done = descent->limit_bytes == 0;
    return true;
}

// The requested numbers of devices, or 1, 2, 4, ... and the maximum. NULL if memory runs out.
static struct descent *list_descents(const struct front_request *request, size_t *count, struct error *error)
{
    const struct cluster *cluster = request->search->cluster;
    const uint32_t most = request->search->ranks;
    struct descent *list = calloc(request->rank_count + 34, sizeof list[0]);
    *count = 0;
    if (!list)
        return error_null(error_no_memory(error, "a front"));
    for (size_t i = 0; i < request->rank_count; i++)
        list[(*count)++].ranks = request->ranks[i];
    for (uint64_t ranks = 1; request->rank_count == 0 && ranks < 2 * (uint64_t)most; ranks *= 2)
        list[(*count)++].ranks = (uint32_t)(ranks < most ? ranks : most);
    for (size_t i = 0; i < *count; i++)
        for (size_t d = 0; d < cluster->device_count; d++)
            list[i].limit_bytes = max_u64(list[i].limit_bytes, cluster->devices[d].memory_bytes);
    return list;
}

static size_t count_open(const struct descent *list, size_t count)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        open += !list[i].is_done;
    return open;
}

// With a deadline, each number of devices has an even share of the time that is left. Those that did not finish in
// their share then divide what the others leave of theirs.
static bool descend_all(struct finding *finding, struct descent *list, size_t count, struct error *error)
{
    for (unsigned round = 0; count_open(list, count) > 0 && (round == 0 || !is_ended(finding)); round++)
        for (size_t i = 0; i < count && !must_stop(finding); i++) {
            if (list[i].is_done)
                continue;
            const uint64_t now = clock_now_ns(), left = finding->until_ns > now ? finding->until_ns - now : 1;
            finding->share_ns = finding->until_ns ? now + max_u64(left / count_open(list + i, count - i), 1) : 0;
            if (!descend(finding, &list[i], error))
                return false;
        }
    finding->is_cut = count_open(list, count) > 0;
    return true;
}

// --- the whole --------------------------------------------------------------------------------

static struct plan_front *begin(const struct front_request *request, struct error *error)
{
    struct plan_front *front = calloc(1, sizeof *front);
    if (!front)
        return error_null(error_no_memory(error, "a front"));
    front->request = request;
    front->budget = request->search->limits.budget ? request->search->limits.budget : FRONT_DEFAULT_BUDGET;
    return front;
}

static bool find_points(struct finding *finding, struct error *error)
{
    size_t count;
    struct descent *list = list_descents(finding->request, &count, error);
    const bool good = list && descend_all(finding, list, count, error);
    free(list);
    return good;
}

// Says why there is no point at all: with what a search without a limit answers.
static bool say_why(struct finding *finding, struct error *error)
{
    if (finding->reason.kind == ERROR_ANSWER && !is_ended(finding))
        plan_free(plan_search(finding->request->search, error));
    return finding->reason.kind ? error_hand_on(error, &finding->reason)
                                : error_set_kind(error, ERROR_ANSWER, "interrupted before there was a plan");
}

static void say_stopped(const struct finding *finding)
{
    struct plan_front *front = finding->front;
    char time[NUMBER_SIZE];
    if (is_interrupted(finding))
        snprintf(front->stopped, sizeof front->stopped, "interrupted");
    else if (finding->is_cut || is_ended(finding))
        snprintf(front->stopped, sizeof front->stopped, "the deadline of %s has passed",
                 time_format(finding->request->search->limits.deadline_ns, time));
}

struct plan_front *front_find(const struct front_request *request, struct error *error)
{
    struct search_request largest = *request->search;
    for (size_t i = 0; i < request->rank_count; i++)
        largest.ranks = request->ranks[i];
    if (!search_resolve(&largest, error) || !search_check(&largest, error))  // now, rather than after all smaller ones
        return NULL;
    struct finding finding = { .request = request, .front = begin(request, error) };
    if (!finding.front)
        return NULL;
    const uint64_t deadline_ns = request->search->limits.deadline_ns;
    finding.until_ns = deadline_ns ? add_clamped(clock_now_ns(), deadline_ns) : 0;
    finding.cluster = cluster_copy(request->search->cluster, error);
    bool good = finding.cluster && find_points(&finding, error);
    good = good && (finding.front->count > 0 || say_why(&finding, error));
    cluster_free(finding.cluster);
    if (good) {
        say_stopped(&finding);
        judge(finding.front);
        return finding.front;
    }
    front_free(finding.front);
    return NULL;
}
