// A first plan. Straight down: for each stage the end whose bound is least, as far
// as the tables can see; where that ends in a stage that does not fit, the next
// best. Then small moves of single cuts, as long as they help.
#include <stdlib.h>

#include "partitioner/search_state.h"

struct candidate {
    uint64_t bound;
    uint64_t forward_ns, recompute_ns;
    uint32_t end;
};

struct dive {
    struct search *search;
    struct decision decision;
    struct candidate *rows;  // layers + 1 per stage
    uint64_t tries;
    struct error *error;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a == NO_WAY || b == NO_WAY ? NO_WAY : a + b;
}

// What the tables expect of plans that go on with this stage.
static uint64_t expected(const struct search *search, uint32_t s, uint32_t first, uint32_t end, uint64_t recompute_ns,
                         uint64_t before)
{
    const struct problem *problem = search->problem;
    const struct tables *tables = &search->tables;
    const struct pattern_stage stage = problem_stage(problem, s, first, end, recompute_ns);
    const size_t next = table_cell(tables, s + 1, end);
    const uint64_t round = pattern_round_ns(&stage);
    const uint64_t behind = plus(round - stage.forward_ns - stage.backward_ns, tables->behind[next]);
    if (behind == NO_WAY)
        return NO_WAY;
    const uint64_t own = pattern_stage_bound(&problem->pattern, s, &stage, before, behind);
    return larger(own, larger(tables->tail[next], before + round + tables->family[next]));
}

static int by_bound(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static size_t list_candidates(struct dive *dive, uint32_t s, uint32_t first, uint64_t before, struct candidate *row)
{
    const struct problem *problem = dive->search->problem;
    size_t count = 0;
    for (uint32_t end = first + 1; end <= problem->layers; end++) {
        if (!problem->can_cut[end] || (end == problem->layers) != (s + 1 == problem->ranks))
            continue;
        const uint64_t bound = expected(dive->search, s, first, end, 0, before);
        if (bound != NO_WAY)
            row[count++] = (struct candidate){ .bound = bound, .end = end };
    }
    qsort(row, count, sizeof row[0], by_bound);
    return count;
}

// Bounds of the first few with what they must recompute; those that do not fit fall out.
static size_t price_candidates(struct dive *dive, uint32_t s, uint32_t first, uint64_t before, struct candidate *row,
                               size_t from, size_t count)
{
    size_t fitting = from;
    for (size_t i = from; i < count; i++) {
        const struct choices *choices = problem_least(dive->search->problem, s, first, row[i].end, dive->error);
        if (!choices || choices->count == 0)
            continue;
        row[i].forward_ns = choices->forward_ns[0];
        row[i].recompute_ns = choices->recompute_ns[0];
        row[i].bound = expected(dive->search, s, first, row[i].end, row[i].recompute_ns, before);
        row[fitting++] = row[i];
    }
    qsort(row + from, fitting - from, sizeof row[0], by_bound);
    return fitting;
}

#define AT_ONCE 8
#define MOST_TRIES 4000

static bool dive_down(struct dive *dive, uint32_t s, uint32_t first, uint64_t before)
{
    struct problem *problem = dive->search->problem;
    dive->decision.cuts[s] = first;
    if (s == problem->ranks)
        return true;
    struct candidate *row = dive->rows + (size_t)s * (problem->layers + 1);
    const size_t count = list_candidates(dive, s, first, before, row);
    for (size_t from = 0; from < count; from += AT_ONCE) {
        const size_t until = from + AT_ONCE < count ? from + AT_ONCE : count;
        const size_t fitting = price_candidates(dive, s, first, before, row, from, until);
        for (size_t i = from; i < fitting && dive->error->kind == ERROR_NONE; i++) {
            if (++dive->tries > MOST_TRIES || problem_must_stop(problem))
                return false;
            dive->decision.forward_ns[s] = row[i].forward_ns;
            dive->decision.recompute_ns[s] = row[i].recompute_ns;
            const struct pattern_stage stage = problem_stage(problem, s, first, row[i].end, row[i].recompute_ns);
            if (dive_down(dive, s + 1, row[i].end, before + pattern_round_ns(&stage)))
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
    if (decision->cuts[s] >= decision->cuts[s + 1] || !dive->search->problem->can_cut[decision->cuts[s + 1]])
        return false;
    const struct choices *choices =
        problem_least(dive->search->problem, s, decision->cuts[s], decision->cuts[s + 1], dive->error);
    if (!choices || choices->count == 0)
        return false;
    decision->forward_ns[s] = choices->forward_ns[0];
    decision->recompute_ns[s] = choices->recompute_ns[0];
    return true;
}

// Moves one cut; true if that made the best plan better.
static bool try_move(struct dive *dive, uint32_t cut, int64_t by)
{
    struct search *search = dive->search;
    decision_copy(&dive->decision, &search->best, search->problem->ranks);
    const int64_t to = (int64_t)dive->decision.cuts[cut] + by;
    if (to < 1 || to >= (int64_t)search->problem->layers)
        return false;
    dive->decision.cuts[cut] = (uint32_t)to;
    if (!refit(dive, cut - 1) || !refit(dive, cut))
        return false;
    const uint64_t was = search->best_ns;
    return search_score(search, &dive->decision) < was;
}

static void move_cuts(struct dive *dive)
{
    static const int64_t steps[] = { 1, -1, 2, -2, 3, -3, 5, -5, 8, -8, 13, -13 };
    const uint32_t ranks = dive->search->problem->ranks;
    for (bool better = true; better;) {
        better = false;
        for (uint32_t cut = 1; cut < ranks; cut++)
            for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
                while (!problem_must_stop(dive->search->problem) && try_move(dive, cut, steps[i]))
                    better = true;
    }
}

bool search_first(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    struct dive dive = { .search = search, .error = error };
    dive.rows = calloc((size_t)problem->ranks * (problem->layers + 1), sizeof dive.rows[0]);
    bool good = decision_create(&dive.decision, problem->ranks, error);
    if (!dive.rows)
        good = error_no_memory(error, "a search");
    if (good && dive_down(&dive, 0, 0, 0)) {
        search_score(search, &dive.decision);
        move_cuts(&dive);
    }
    free(dive.rows);
    decision_clear(&dive.decision);
    return good && error->kind == ERROR_NONE;
}
