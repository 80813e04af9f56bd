// A first plan. Stage after stage, from the last one up and from the first one down:
// the next cut whose bound is least, as far as the tables can see; where that ends in
// a stage that does not fit, the next best. Then small moves of cuts, as long as they
// help, from there and from places nearby.
#include <stdlib.h>

#include "common/random.h"
#include "partitioner/search/search_state.h"

struct candidate {
    uint64_t bound;
    uint64_t forward_ns, recompute_ns;
    uint32_t first, end;  // of the stage's layers
};

struct dive {
    struct search *search;
    struct decision decision;
    struct candidate *rows;  // layers + 1 per stage
    bool from_last;
    uint64_t until;     // work that it may take the problem to
    uint64_t ended_at;  // about the work when the search was seen to be ended; 0: it is not
    struct error *error;
};

static struct pattern_stage stage_of(const struct dive *dive, uint32_t s, const struct candidate *candidate)
{
    return problem_stage(dive->search->problem, s, candidate->first, candidate->end, candidate->recompute_ns);
}

static uint64_t expected(const struct dive *dive, uint32_t s, const struct candidate *candidate, struct known known)
{
    const struct search *search = dive->search;
    const struct pattern_stage stage = stage_of(dive, s, candidate);
    return dive->from_last
             ? tables_bound_before(&search->tables, search->problem, s, candidate->first, &stage, known)
             : tables_bound_behind(&search->tables, search->problem, s, candidate->end, &stage, known);
}

static int by_bound(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x->end > y->end) - (x->end < y->end);
}

// All stages s that begin, or end, at the edge of what is known.
static size_t list_candidates(struct dive *dive, uint32_t s, uint32_t edge, struct known known, struct candidate *row)
{
    const struct problem *problem = dive->search->problem;
    const uint32_t from = dive->from_last ? 0 : edge + 1, to = dive->from_last ? edge : problem->layers + 1;
    size_t count = 0;
    for (uint32_t cut = from; cut < to; cut++) {
        struct candidate candidate = { .first = dive->from_last ? cut : edge, .end = dive->from_last ? edge : cut };
        if (!problem_may_begin(problem, dive->from_last ? s : s + 1, cut))
            continue;
        candidate.recompute_ns = problem_recompute_ns(problem, s, candidate.first, candidate.end);
        if (candidate.recompute_ns == NO_WAY)
            continue;
        candidate.bound = expected(dive, s, &candidate, known);
        if (candidate.bound != NO_WAY)
            row[count++] = candidate;
    }
    qsort(row, count, sizeof row[0], by_bound);
    return count;
}

// Bounds of the next few with what they must recompute; those that do not fit fall out.
static size_t price_candidates(struct dive *dive, uint32_t s, struct known known, struct candidate *row, size_t from,
                               size_t count)
{
    size_t fitting = from;
    for (size_t i = from; i < count; i++) {
        const struct choices *choices =
            problem_least(dive->search->problem, s, row[i].first, row[i].end, dive->error);
        if (!choices || choices->count == 0)
            continue;
        row[fitting] = row[i];
        row[fitting].forward_ns = choices->forward_ns[0];
        row[fitting].recompute_ns = choices->recompute_ns[0];
        row[fitting].bound = expected(dive, s, &row[fitting], known);
        fitting++;
    }
    qsort(row + from, fitting - from, sizeof row[0], by_bound);
    return fitting;
}

#define AT_ONCE 3

// What a first plan may cost, whatever the budget.
#define FIRST_WORK 500000

// The same once the search is ended.
#define ENDED_WORK 20000

// A search that is ended before there is any plan still makes its first one, if that takes a moment only.
static bool is_ended(struct dive *dive)
{
    struct problem *problem = dive->search->problem;
    if (problem->work > dive->until)
        return true;
    if (!problem_is_interrupted(problem))
        return false;
    const uint64_t below = problem->request->below_ns;
    dive->ended_at = dive->ended_at ? dive->ended_at : problem->work + 1;
    return dive->search->best_ns != NO_WAY || (below && below != UINT64_MAX)
        || problem->work > dive->ended_at + ENDED_WORK;
}

// Chooses the stages that are left, `left` of them.
static bool go_on(struct dive *dive, uint32_t left, uint32_t edge, struct known known)
{
    struct problem *problem = dive->search->problem;
    const uint32_t s = dive->from_last ? left - 1 : problem->ranks - left;
    dive->decision.cuts[dive->from_last ? left : s] = edge;
    if (left == 0)
        return true;
    struct candidate *row = dive->rows + (size_t)s * (problem->layers + 1);
    const size_t count = list_candidates(dive, s, edge, known, row);
    for (size_t from = 0; from < count; from += AT_ONCE) {
        if (is_ended(dive))
            return false;
        const size_t until = from + AT_ONCE < count ? from + AT_ONCE : count;
        const size_t fitting = price_candidates(dive, s, known, row, from, until);
        for (size_t i = from; i < fitting && dive->error->kind == ERROR_NONE; i++) {
            if (problem->work++ > dive->until)
                return false;
            dive->decision.forward_ns[s] = row[i].forward_ns;
            dive->decision.recompute_ns[s] = row[i].recompute_ns;
            const struct pattern_stage stage = stage_of(dive, s, &row[i]);
            const uint32_t next = dive->from_last ? row[i].first : row[i].end;
            if (go_on(dive, left - 1, next, known_with(known, &stage)))
                return true;
        }
    }
    return false;
}

// --- small moves ------------------------------------------------------------------

// Sets stage s of the decision to fit; false if it does not.
static bool refit(struct dive *dive, uint32_t s)
{
    const struct decision *decision = &dive->decision;
    const uint32_t first = decision->cuts[s], end = decision->cuts[s + 1];
    const struct problem *problem = dive->search->problem;
    if (first >= end || end > problem->layers || !problem_may_begin(problem, s, first)
        || !problem_may_begin(problem, s + 1, end))
        return false;
    const struct choices *choices = problem_least(dive->search->problem, s, first, end, dive->error);
    if (!choices || choices->count == 0)
        return false;
    decision->forward_ns[s] = choices->forward_ns[0];
    decision->recompute_ns[s] = choices->recompute_ns[0];
    return true;
}

// Moves cuts [from, to] of a decision; its objective, or NO_WAY if that does not fit.
static uint64_t try_move(struct dive *dive, const struct decision *start, uint32_t from, uint32_t to, int64_t by)
{
    struct search *search = dive->search;
    decision_copy(&dive->decision, start, search->problem->ranks);
    for (uint32_t cut = from; cut <= to; cut++) {
        const int64_t moved = (int64_t)start->cuts[cut] + by;
        if (moved < 1 || moved >= (int64_t)search->problem->layers)
            return NO_WAY;
        dive->decision.cuts[cut] = (uint32_t)moved;
    }
    for (uint32_t s = from - 1; s <= to; s++)
        if (!refit(dive, s))
            return NO_WAY;
    return search_score(search, &dive->decision);
}

// What moves from one plan may cost at most, as a part of the budget.
#define DESCENT_PART 16

// Moves single cuts and runs of cuts as long as that helps; `start` is where it ends.
static void descend(struct dive *dive, struct decision *start, uint64_t value)
{
    static const int64_t steps[] = { 1, -1, 2, -2, 3, -3, 5, -5, 8, -8 };
    struct problem *problem = dive->search->problem;
    const uint32_t ranks = problem->ranks;
    const uint64_t until = problem->work + problem->budget / DESCENT_PART;
    for (bool better = true; better;) {
        better = false;
        for (uint32_t from = 1; from < ranks; from++) {
            for (uint32_t to = from; to < ranks && to < from + 6; to++) {
                for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
                    if (problem->work > until || problem_must_stop(problem) || dive->error->kind != ERROR_NONE)
                        return;
                    const uint64_t moved = try_move(dive, start, from, to, steps[i]);
                    if (moved >= value)
                        continue;
                    value = moved;
                    better = true;
                    decision_copy(start, &dive->decision, ranks);
                }
            }
        }
    }
}

// From the best plan, a few cuts somewhere else; then down again.
static void wander(struct dive *dive, struct decision *start)
{
    struct search *search = dive->search;
    const uint32_t ranks = search->problem->ranks;
    const uint64_t until = search->problem->work + search->problem->budget / 8;
    uint64_t seed = 1;
    for (unsigned round = 0; round < 200 && ranks > 2 && search->problem->work < until; round++) {
        decision_copy(start, &search->best, ranks);
        const uint32_t from = 1 + (uint32_t)random_below(&seed, ranks - 1);
        const uint32_t to = from + (uint32_t)random_below(&seed, ranks - from);
        const int64_t by = (int64_t)random_below(&seed, 21) - 10;
        const uint64_t value = try_move(dive, start, from, to, by);
        if (value == NO_WAY || dive->error->kind != ERROR_NONE)
            continue;
        decision_copy(start, &dive->decision, ranks);
        descend(dive, start, value);
    }
}

bool search_descend(struct search *search, struct decision *decision, struct error *error)
{
    struct dive dive = { .search = search, .error = error };
    const bool good = decision_create(&dive.decision, search->problem->ranks, error);
    if (good)
        descend(&dive, decision, search_score(search, decision));
    decision_clear(&dive.decision);
    return good && error->kind == ERROR_NONE;
}

bool search_first(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    struct dive dive = { .search = search, .error = error };
    struct decision start = { 0 };
    dive.rows = calloc((size_t)problem->ranks * (problem->layers + 1), sizeof dive.rows[0]);
    bool good = decision_create(&dive.decision, problem->ranks, error) && decision_create(&start, problem->ranks, error);
    if (!dive.rows)
        good = error_no_memory(error, "a search");
    good = good && search_seeds(search, error);
    const uint64_t seeded = search->best_ns;
    const int ways = problem->request->any ? 0 : 2;
    for (int way = 0; good && way < ways; way++) {
        dive.from_last = way == 0;
        dive.until = problem->work + FIRST_WORK;
        dive.decision.cuts[dive.from_last ? 0 : problem->ranks] = dive.from_last ? 0 : problem->layers;
        if (!go_on(&dive, problem->ranks, dive.from_last ? problem->layers : 0, (struct known){ 0 }))
            continue;
        decision_copy(&start, &dive.decision, problem->ranks);
        descend(&dive, &start, search_score(search, &start));
    }
    if (good && seeded != NO_WAY && search->best_ns == seeded && ways > 0) {
        decision_copy(&start, &search->best, problem->ranks);
        descend(&dive, &start, seeded);
    }
    if (good && search->best_ns != NO_WAY && ways > 0)
        wander(&dive, &start);
    free(dive.rows);
    decision_clear(&dive.decision);
    decision_clear(&start);
    return good && error->kind == ERROR_NONE;
}
