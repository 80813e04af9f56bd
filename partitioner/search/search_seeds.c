// First plans from plain cuts: stages that are even in time, in layers, or between the two,
// each recomputed as it must to fit.
//
// A dive by bounds (search_first.c) sees what a stage costs only once it is worked out what
// the stage must recompute, and where memory is tight and models are long that is all its
// work gone before it has a plan. These need one look per stage.
#include <stdlib.h>

#include "partitioner/search/search_state.h"

enum { BLENDS = 4 };

// A layer's share of all time and of all layers, together about 2^40: the more of the one the less of the other.
static uint64_t weight_of(const struct problem *problem, uint32_t layer, unsigned blend)
{
    const uint64_t time = interval_forward_ns(problem->intervals, layer, layer + 1)
                        + interval_backward_ns(problem->intervals, layer, layer + 1);
    const uint64_t all = interval_forward_ns(problem->intervals, 0, problem->layers)
                       + interval_backward_ns(problem->intervals, 0, problem->layers);
    const double share = all > 0 ? (double)time / (double)all : 0, even = 1.0 / problem->layers;
    return (uint64_t)((share * (BLENDS - blend) + even * blend) / BLENDS * 0x1p40);
}

// Stages of at most `load`, each as long as it can be with a layer left for each behind it.
static bool fill_cuts(const struct problem *problem, const uint64_t *before, uint64_t load, uint32_t *cuts)
{
    const uint32_t layers = problem->layers, ranks = problem->ranks;
    cuts[0] = 0;
    for (uint32_t s = 0; s + 1 < ranks; s++) {
        uint32_t end = 0;
        for (uint32_t at = cuts[s] + 1; at + (ranks - s - 1) <= layers && before[at] - before[cuts[s]] <= load; at++)
            end = problem_may_begin(problem, s + 1, at) ? at : end;
        if (end == 0)
            return false;
        cuts[s + 1] = end;
    }
    cuts[ranks] = layers;
    return before[layers] - before[cuts[ranks - 1]] <= load;
}

// The same from the last stage up: the first one is left what remains, and under 1F1B it holds most micro-batches.
static bool fill_cuts_up(const struct problem *problem, const uint64_t *before, uint64_t load, uint32_t *cuts)
{
    const uint32_t layers = problem->layers, ranks = problem->ranks;
    cuts[ranks] = layers;
    for (uint32_t s = ranks - 1; s > 0; s--) {
        uint32_t first = layers;
        for (uint32_t at = cuts[s + 1] - 1; at >= s && at < layers && before[cuts[s + 1]] - before[at] <= load; at--)
            first = problem_may_begin(problem, s, at) ? at : first;
        if (first == layers)
            return false;
        cuts[s] = first;
    }
    cuts[0] = 0;
    return before[cuts[1]] <= load;
}

// The least load for which that can be done. False where no load is enough.
static bool cut_evenly(const struct problem *problem, const uint64_t *before, bool up, uint32_t *cuts)
{
    bool (*const fill)(const struct problem *, const uint64_t *, uint64_t, uint32_t *) = up ? fill_cuts_up : fill_cuts;
    uint64_t low = 0, high = before[problem->layers];
    if (!fill(problem, before, high, cuts))
        return false;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (fill(problem, before, middle, cuts))
            high = middle;
        else
            low = middle + 1;
    }
    return fill(problem, before, high, cuts);
}

// Whether every stage fits, with what it must recompute.
static bool fit(struct problem *problem, struct decision *decision, struct error *error)
{
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const struct choices *choices = problem_least(problem, s, decision->cuts[s], decision->cuts[s + 1], error);
        if (!choices || choices->count == 0)
            return false;
        decision->forward_ns[s] = choices->forward_ns[0];
        decision->recompute_ns[s] = choices->recompute_ns[0];
    }
    return true;
}

static bool try_blend(struct search *search, unsigned blend, bool up, uint64_t *before, struct decision *decision,
                      struct error *error)
{
    struct problem *problem = search->problem;
    for (uint32_t l = 0; l < problem->layers; l++)
        before[l + 1] = before[l] + weight_of(problem, l, blend);
    const uint64_t best_ns = search->best_ns;
    if (!cut_evenly(problem, before, up, decision->cuts) || !fit(problem, decision, error))
        return error->kind == ERROR_NONE;
    // The budget is for others, too.
    return search_score(search, decision) >= best_ns || problem->work > problem->budget / 4
        || search_descend(search, decision, error);
}

// --- a plan at any cost ---------------------------------------------------------------

static bool fits(struct problem *problem, uint32_t s, uint32_t first, uint32_t end, struct error *error)
{
    const struct choices *choices = problem_least(problem, s, first, end, error);
    return choices && choices->count > 0;
}

// The last layer at which a stage may end, of those up to `until`, such that it fits: halving what is between one that
// does and one that does not, since what fits mostly still does with a layer less. 0 where none was found.
static uint32_t longest_end(struct problem *problem, uint32_t s, uint32_t first, uint32_t until, struct error *error)
{
    uint32_t low = first, high = until + 1;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (fits(problem, s, first, middle, error))
            low = middle;
        else
            high = middle;
    }
    while (low > first && !problem_may_begin(problem, s + 1, low))
        low--;
    return low > first ? low : 0;
}

// Stages that are each as long as fits and as `load` allows: uneven, but with little limit of the load it fits nearly
// wherever any plan does.
static bool try_longest(struct search *search, const uint64_t *before, uint64_t load, struct decision *decision,
                        struct error *error)
{
    struct problem *problem = search->problem;
    const uint32_t layers = problem->layers, ranks = problem->ranks;
    for (uint32_t s = 0; s + 1 < ranks; s++) {
        const uint32_t first = decision->cuts[s], most = layers - (ranks - s - 1);
        uint32_t until = first + 1;
        while (until < most && before[until + 1] - before[first] <= load)
            until++;
        decision->cuts[s + 1] = longest_end(problem, s, first, until, error);
        if (decision->cuts[s + 1] == 0)
            return error->kind == ERROR_NONE;
    }
    decision->cuts[ranks] = layers;
    if (problem_may_begin(problem, ranks, layers) && fit(problem, decision, error))
        search_score(search, decision);
    return error->kind == ERROR_NONE;
}

// From little more than an even load on.
static bool try_lean(struct search *search, uint64_t *before, struct decision *decision, struct error *error)
{
    bool good = true;
    for (uint32_t l = 0; l < search->problem->layers; l++)
        before[l + 1] = before[l] + weight_of(search->problem, l, 0);
    const uint64_t even = before[search->problem->layers] / search->problem->ranks;
    decision->cuts[0] = 0;
    for (uint64_t times = 2; good && search->best_ns == NO_WAY && times <= 2 * search->problem->ranks; times *= 2)
        good = try_longest(search, before, even * times, decision, error);
    return good;
}

// Whether the search is ended and no plan is missing, its own or that of whoever asks.
static bool is_enough(const struct search *search)
{
    const uint64_t below = search->problem->request->below_ns;
    return problem_is_interrupted(search->problem) && (search->best_ns != NO_WAY || (below && below != UINT64_MAX));
}

bool search_seeds(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    struct decision decision = { 0 };
    uint64_t *before = calloc((size_t)problem->layers + 1, sizeof before[0]);
    bool good = decision_create(&decision, problem->ranks, error) && (before || error_no_memory(error, "a search"));
    for (unsigned blend = 0; good && blend < 2 * BLENDS + 2 && !is_enough(search); blend++)
        good = try_blend(search, blend / 2, blend % 2, before, &decision, error);
    if (good && problem_is_interrupted(problem) && !is_enough(search))
        good = try_lean(search, before, &decision, error);
    free(before);
    decision_clear(&decision);
    return good;
}
