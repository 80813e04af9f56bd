// Asynchronous schedules: the objective is T(3K) - T(2K), what K micro-batches more
// take. It is no longest path, and a longer stage can make it smaller; what holds:
//
// Let a rank's order for 3K be that for 2K with K whole rounds of F and B put in
// anywhere in its steady part, and let no links be shared. Take the longest path of
// the run of 2K and an action of rank s on it. Put K rounds of s in there, and go on
// as before with micro-batches K higher: a path of the run of 3K. So
//
//     T(3K) >= T(2K) + K (F_s + B_s)
//
// for every rank s whose steady part the longest path of the run of 2K touches. It
// touches that of s for certain if the longest path without it is shorter; that is
// one timing with these actions taken out (pattern_time()). With a path's durations
// between those of two corners of a box, the path that avoids s is at most that of
// the upper corner, the longest at least that of the lower one: one certificate for
// all ways to recompute in between.
//
// Every path begins with F_0(0), at which K forwards and K - w + 1 backwards of rank 0
// can be put in; that bound holds for all plans with this first stage. More than that:
// any path from F_0(0) to F_0(K) can be put in front of the longest path of the run of
// 2K, all of whose micro-batches then count K higher. So
//
//     T(3K) >= T(2K) + the time at which F_0(K) could begin
//
// which is what pattern_continue() makes of a pattern, and all bounds of it hold for
// cuts that are not known yet.
#include <stdlib.h>

#include "partitioner/search/search_state.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t async_first_bound(const struct search *search, const struct pattern_stage *first)
{
    if (!search->can_extend)
        return 0;
    const uint64_t k = search->problem->micro_batches, w = search->pattern_2m.warm[0];
    return k * first->forward_ns + (k + 1 > w ? k + 1 - w : 0) * first->backward_ns;
}

// Ways to recompute, between two corners.
struct box {
    struct decision lower, upper;
    uint32_t *from, *to;  // of each stage's choices
};

static void set_stages(struct search *search, const struct decision *decision)
{
    for (uint32_t s = 0; s < search->problem->ranks; s++)
        search->stages[s] = problem_stage(search->problem, s, decision->cuts[s], decision->cuts[s + 1],
                                          decision->recompute_ns[s]);
}

static uint64_t time_of(struct search *search, uint32_t avoided)
{
    search->problem->work += 1 + search->actions / 64;
    return pattern_time(&search->pattern_2m, search->room, search->stages, 0, search->problem->ranks, NULL,
                        avoided);
}

// A bound on the objective of all decisions between the corners.
static uint64_t bound_between(struct search *search, const struct decision *lower, const struct decision *upper)
{
    if (!search->can_extend)
        return 0;
    const uint32_t ranks = search->problem->ranks;
    set_stages(search, lower);
    const uint64_t shortest = time_of(search, PATTERN_NO_RANK);
    uint64_t bound = async_first_bound(search, &search->stages[0]);
    set_stages(search, upper);
    for (uint32_t s = 0; s < ranks; s++) {
        const struct pattern_stage stage =
            problem_stage(search->problem, s, lower->cuts[s], lower->cuts[s + 1], lower->recompute_ns[s]);
        const uint64_t rounds = search->problem->micro_batches * (stage.forward_ns + stage.backward_ns);
        if (rounds > bound && time_of(search, s) < shortest)
            bound = larger(bound, rounds);
    }
    return bound;
}

// The corner at which everything is recomputed; no way takes longer.
static void recompute_all(const struct search *search, struct decision *decision)
{
    const struct problem *problem = search->problem;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        decision->forward_ns[s] = interval_recompute_ns(problem->intervals, decision->cuts[s], decision->cuts[s + 1]);
        decision->recompute_ns[s] = stage_scaled_ns(decision->forward_ns[s],
                                                    search_device(problem->request, s)->speed_permille);
    }
}

// --- all ways under given cuts --------------------------------------------------------

static bool set_corner(struct search *search, struct decision *decision, const uint32_t *indices, struct error *error)
{
    for (uint32_t s = 0; s < search->problem->ranks; s++) {
        const struct choices *choices =
            problem_every(search->problem, s, decision->cuts[s], decision->cuts[s + 1], error);
        if (!choices)
            return false;
        decision->forward_ns[s] = choices->forward_ns[indices[s]];
        decision->recompute_ns[s] = choices->recompute_ns[indices[s]];
    }
    return true;
}

// The stage with the most ways left; false if each has one.
static bool widest(const struct box *box, uint32_t ranks, uint32_t *stage)
{
    *stage = 0;
    for (uint32_t s = 1; s < ranks; s++)
        if (box->to[s] - box->from[s] > box->to[*stage] - box->from[*stage])
            *stage = s;
    return box->to[*stage] > box->from[*stage];
}

// Scores the lower corner, then halves the box until a bound settles it.
static bool try_box(struct search *search, struct box *box, uint64_t bound_ns, struct error *error)
{
    if (!set_corner(search, &box->lower, box->from, error) || !set_corner(search, &box->upper, box->to, error))
        return false;
    search_score(search, &box->lower);
    uint32_t s;
    if (!widest(box, search->problem->ranks, &s))
        return true;
    const uint64_t bound = larger(bound_ns, bound_between(search, &box->lower, &box->upper));
    if (bound >= search->best_ns)
        return true;
    if (problem_must_stop(search->problem)) {
        search_lose(search, bound);
        return true;
    }
    const uint32_t from = box->from[s], to = box->to[s], middle = from + (to - from) / 2;
    box->to[s] = middle;
    bool good = try_box(search, box, bound, error);
    box->to[s] = to;
    box->from[s] = middle + 1;
    good = good && try_box(search, box, bound, error);
    box->from[s] = from;
    return good;
}

static bool try_all(struct search *search, struct box *box, uint64_t bound, struct error *error)
{
    const struct problem *problem = search->problem;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const struct choices *choices =
            problem_every(search->problem, s, box->lower.cuts[s], box->lower.cuts[s + 1], error);
        if (!choices)
            return false;
        if (!choices->complete)
            search_lose(search, bound);
        if (choices->count == 0)
            return true;  // only a cut walk misses what problem_least() found
        box->from[s] = 0;
        box->to[s] = (uint32_t)choices->count - 1;
    }
    return try_box(search, box, bound, error);
}

bool async_leaf(struct search *search, const struct decision *decision, uint64_t bound_ns, struct error *error)
{
    const uint32_t ranks = search->problem->ranks;
    struct box box = { 0 };
    box.from = calloc(ranks, sizeof box.from[0]);
    box.to = calloc(ranks, sizeof box.to[0]);
    bool good = decision_create(&box.lower, ranks, error) && decision_create(&box.upper, ranks, error);
    if (!box.from || !box.to)
        good = error_no_memory(error, "a search");
    if (good) {
        decision_copy(&box.lower, decision, ranks);
        decision_copy(&box.upper, decision, ranks);
        search_score(search, decision);
        recompute_all(search, &box.upper);
        const uint64_t bound = larger(bound_ns, bound_between(search, &box.lower, &box.upper));
        if (bound < search->best_ns)
            good = try_all(search, &box, bound, error);
    }
    decision_clear(&box.lower);
    decision_clear(&box.upper);
    free(box.from);
    free(box.to);
    return good;
}
