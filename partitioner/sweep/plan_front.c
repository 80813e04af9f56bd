#include "partitioner/sweep/plan_front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/plan_search.h"
#include "schedules/generators/generate.h"

// A front that is being found.
struct finding {
    const struct front_request *request;
    struct plan_front *front;
    struct cluster *cluster;  // the request's, with less memory
    size_t capacity;          // of points
    uint64_t until_ns;        // when all of it ends, 0: when it is done
    struct error reason;      // why there was no plan, on the number of devices that was tried last
};

// --- points -------------------------------------------------------------------------------

static void clear_point(struct front_point *point)
{
    free(point->layers);
    free(point->recomputed);
}

void front_free(struct plan_front *front)
{
    if (!front)
        return;
    for (size_t i = 0; i < front->count; i++)
        clear_point(&front->points[i]);
    free(front->points);
    cluster_free(front->cluster);
    free(front->model);
    free(front->notes);
    free(front);
}

static bool grow(struct finding *finding, struct error *error)
{
    struct plan_front *front = finding->front;
    return array_reserve(&front->points, &finding->capacity, front->count + 1, sizeof front->points[0])
        || error_no_memory(error, "a front");
}

static bool set_stages(struct front_point *point, const struct plan *plan, struct error *error)
{
    point->layers = calloc(plan->stage_count, sizeof point->layers[0]);
    point->recomputed = calloc(plan->stage_count, sizeof point->recomputed[0]);
    if (!point->layers || !point->recomputed) {
        clear_point(point);
        return error_no_memory(error, "a front");
    }
    point->stages = (uint32_t)plan->stage_count;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        point->layers[s] = stage->end - stage->first;
        for (size_t i = 0; i < stage->recompute_count; i++)
            point->recomputed[s] += stage->recompute[i].end - stage->recompute[i].first;
    }
    return true;
}

static uint64_t peak_of(const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    uint64_t peak = 0;
    for (uint32_t r = 0; placement && r < placement->ranks; r++) {
        const uint64_t own = plan_rank_bytes(plan, placement, r);
        peak = own > peak ? own : peak;
    }
    placement_free(placement);
    return peak;
}

static bool add_point(struct finding *finding, const struct plan *plan, uint64_t limit_bytes, uint64_t *peak_bytes,
                      struct error *error)
{
    struct front_point point = { .ranks = plan->ranks, .limit_bytes = limit_bytes, .iteration_ns = plan->iteration_ns,
                                 .lower_bound_ns = plan->certificate.lower_bound_ns,
                                 .proved = plan->certificate.proved };
    *peak_bytes = point.peak_bytes = peak_of(plan, error);
    if (error->kind != ERROR_NONE || !grow(finding, error) || !set_stages(&point, plan, error))
        return false;
    finding->front->points[finding->front->count++] = point;
    return true;
}

// --- which of them count --------------------------------------------------------------------

// At least as good in everything, of equals the one that stands first.
static bool beats(const struct front_point *a, const struct front_point *b)
{
    if (a == b || a->ranks > b->ranks || a->peak_bytes > b->peak_bytes || a->iteration_ns > b->iteration_ns)
        return false;
    return a->ranks < b->ranks || a->peak_bytes < b->peak_bytes || a->iteration_ns < b->iteration_ns || a < b;
}

static bool is_beaten(const struct plan_front *front, size_t i, bool by_as_many)
{
    for (size_t k = 0; k < front->count; k++)
        if ((!by_as_many || front->points[k].ranks == front->points[i].ranks)
            && beats(&front->points[k], &front->points[i]))
            return true;
    return false;
}

static int by_ranks_and_memory(const void *a, const void *b)
{
    const struct front_point *x = a, *y = b;
    if (x->ranks != y->ranks)
        return x->ranks < y->ranks ? -1 : 1;
    return (x->peak_bytes < y->peak_bytes) - (x->peak_bytes > y->peak_bytes);
}

// Leaves out points that another one on as many devices beats, sorts the rest, and says
// which are on the front of all.
static void judge(struct plan_front *front)
{
    for (size_t i = 0; i < front->count; i++)
        front->points[i].is_on_front = !is_beaten(front, i, true);
    size_t kept = 0;
    for (size_t i = 0; i < front->count; i++) {
        if (front->points[i].is_on_front)
            front->points[kept++] = front->points[i];
        else
            clear_point(&front->points[i]);
    }
    front->count = kept;
    if (kept > 0)
        qsort(front->points, kept, sizeof front->points[0], by_ranks_and_memory);
    for (size_t i = 0; i < front->count; i++)
        front->points[i].is_on_front = !is_beaten(front, i, false);
}

// --- the descent ------------------------------------------------------------------------------

static bool is_interrupted(const struct finding *finding)
{
    return finding->request->search->limits.interrupted && *finding->request->search->limits.interrupted;
}

static bool is_late(const struct finding *finding)
{
    return finding->until_ns && clock_now_ns() >= finding->until_ns;
}

// Not before there is a point: a search that has ended still makes its first plan.
static bool must_stop(const struct finding *finding)
{
    return finding->front->count > 0 && (is_interrupted(finding) || is_late(finding));
}

// The plan under a limit, or NULL: `lacks_bytes` says then how much the one lacks that lacks least, 0 if that is not
// known.
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
    if (finding->until_ns)
        search.limits.deadline_ns = finding->until_ns > now ? finding->until_ns - now : 1;
    for (size_t i = 0; i < given->cluster->device_count; i++) {
        const uint64_t memory = given->cluster->devices[i].memory_bytes;
        finding->cluster->devices[i].memory_bytes = memory < limit_bytes ? memory : limit_bytes;
    }
    if (finding->request->progress)
        finding->request->progress(finding->request->self, ranks, limit_bytes);
    finding->reason = (struct error){ 0 };
    struct plan *plan = plan_search_orders(&search, &finding->reason);
    if (!plan && finding->reason.kind == ERROR_MACHINE)
        error_set_kind(error, ERROR_MACHINE, "%s", finding->reason.text);
    *lacks_bytes = shortage.is_known ? shortage.lacks_bytes : 0;
    return plan;
}

// A byte less than a plan takes, or less by the resolution.
static uint64_t next_limit(const struct finding *finding, uint64_t peak_bytes)
{
    const uint64_t step = (uint64_t)((unsigned __int128)peak_bytes * finding->request->resolution_ppm / 1000000);
    return peak_bytes - (step > 0 ? step : 1);
}

// With a resolution the last step may have gone too far: what lacks least says how far.
static bool find_least(struct finding *finding, uint32_t ranks, uint64_t limit_bytes, uint64_t lacks_bytes,
                       uint64_t last_bytes, struct error *error)
{
    if (lacks_bytes == 0 || limit_bytes + lacks_bytes >= last_bytes)
        return true;
    uint64_t peak_bytes;
    const uint64_t least_bytes = limit_bytes + lacks_bytes;
    struct plan *plan = plan_under(finding, ranks, least_bytes, &lacks_bytes, error);
    const bool good = plan ? add_point(finding, plan, least_bytes, &peak_bytes, error)
                           : error->kind == ERROR_NONE;
    plan_free(plan);
    return good;
}

static bool descend(struct finding *finding, uint32_t ranks, struct error *error)
{
    const struct cluster *cluster = finding->request->search->cluster;
    uint64_t limit_bytes = 0, peak_bytes = 0, lacks_bytes = 0;
    for (size_t i = 0; i < cluster->device_count; i++)
        if (cluster->devices[i].memory_bytes > limit_bytes)
            limit_bytes = cluster->devices[i].memory_bytes;
    while (limit_bytes > 0 && !must_stop(finding)) {
        struct plan *plan = plan_under(finding, ranks, limit_bytes, &lacks_bytes, error);
        if (!plan)
            return error->kind == ERROR_NONE
                && (peak_bytes == 0 || find_least(finding, ranks, limit_bytes, lacks_bytes, peak_bytes, error));
        const bool good = add_point(finding, plan, limit_bytes, &peak_bytes, error);
        plan_free(plan);
        if (!good)
            return false;
        limit_bytes = next_limit(finding, peak_bytes);
    }
    return true;
}

// --- the whole --------------------------------------------------------------------------------

static struct cluster *copy_cluster(const struct cluster *cluster, struct error *error)
{
    struct text text = { 0 };
    cluster_write(cluster, &text);
    struct cluster *copy = NULL;
    if (text.failed)
        error_no_memory(error, "a front");
    else
        copy = cluster_read(text.data, text.length, "the cluster", error);
    text_clear(&text);
    return copy;
}

static struct plan_front *begin(const struct front_request *request, struct error *error)
{
    const struct search_request *search = request->search;
    const struct generator *generator = generator_find(search->schedule, error);
    if (!generator)
        return NULL;
    struct plan_front *front = calloc(1, sizeof *front);
    if (!front) {
        error_no_memory(error, "a front");
        return NULL;
    }
    front->chunks = search->chunks;
    front->micro_batches = search->micro_batches;
    front->holding = search->holding;
    front->budget = search->limits.budget ? search->limits.budget : FRONT_DEFAULT_BUDGET;
    front->resolution_ppm = request->resolution_ppm;
    snprintf(front->schedule, sizeof front->schedule, "%s", generator->name);
    snprintf(front->profile_hash, sizeof front->profile_hash, "%s", search->profile->hash);
    front->model = strdup(search->profile->model);
    front->cluster = front->model ? copy_cluster(search->cluster, error) : NULL;
    if (front->cluster)
        return front;
    if (!front->model)
        error_no_memory(error, "a front");
    front_free(front);
    return NULL;
}

static bool find_points(struct finding *finding, struct error *error)
{
    const struct front_request *request = finding->request;
    const uint32_t most = request->search->ranks;
    for (size_t i = 0; i < request->rank_count; i++)
        if (!descend(finding, request->ranks[i], error))
            return false;
    for (uint64_t ranks = 1; request->rank_count == 0 && ranks < 2 * (uint64_t)most; ranks *= 2)
        if (!descend(finding, (uint32_t)(ranks < most ? ranks : most), error))
            return false;
    return true;
}

// Why there is no point at all: what the search has to say without a limit.
static bool say_why(struct finding *finding, struct error *error)
{
    if (finding->reason.kind == ERROR_ANSWER && !is_interrupted(finding) && !is_late(finding))
        plan_free(plan_search_orders(finding->request->search, error));
    return error_set_kind(error, finding->reason.kind ? finding->reason.kind : ERROR_ANSWER, "%s",
                          finding->reason.kind ? finding->reason.text : "interrupted before there was a plan");
}

static void say_stopped(const struct finding *finding)
{
    struct plan_front *front = finding->front;
    char time[NUMBER_SIZE];
    if (is_interrupted(finding))
        snprintf(front->stopped, sizeof front->stopped, "interrupted");
    else if (is_late(finding))
        snprintf(front->stopped, sizeof front->stopped, "the deadline of %s has passed",
                 time_format(finding->request->search->limits.deadline_ns, time));
}

struct plan_front *front_find(const struct front_request *request, struct error *error)
{
    struct finding finding = { .request = request, .front = begin(request, error) };
    if (!finding.front)
        return NULL;
    const uint64_t deadline_ns = request->search->limits.deadline_ns;
    finding.until_ns = deadline_ns ? add_clamped(clock_now_ns(), deadline_ns) : 0;
    finding.cluster = copy_cluster(request->search->cluster, error);
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
