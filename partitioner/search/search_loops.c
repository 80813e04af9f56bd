// The largest target that loop_places.h rules out is a bound; what is left over just above it is
// a good plan. What stages must recompute is worked out only for those plans, as often
// as it changes what the next one looks like: of the hundred thousands of intervals of
// a large model a few hundred.
#include <stdlib.h>

#include "partitioner/search/loop_places.h"
#include "partitioner/search/search_state.h"

struct loops {
    struct search *search;
    struct loop_place *places;  // as the cells of the tables
    struct loop_target target;
    struct decision decision;
    struct decision start;  // the best so far of those that were read off
    uint64_t start_ns;
    uint64_t until;  // work that it may take
    struct error *error;
};

// --- one target -------------------------------------------------------------------

static struct loop_place *place_at(const struct loops *loops, uint32_t k, uint32_t cut)
{
    return &loops->places[table_cell(&loops->search->tables, k, cut)];
}

static void extend_place(struct loops *loops, uint32_t s, uint32_t first)
{
    struct problem *problem = loops->search->problem;
    const struct tables *tables = &loops->search->tables;
    if (tables->before[table_cell(tables, s, first)] == NO_WAY)
        return;
    uint32_t seen = 0;
    for (uint32_t end = first + 1; end <= problem->layers; end++) {
        if (tables_is_too_long(problem, s, first, end, loops->target.ns))
            break;
        const struct loop_place *from = place_at(loops, s + 1, end);
        if (!tables_can_end(problem, s, end) || from->count == 0)
            continue;
        struct table_edge edge;
        seen++;
        if (tables_edge(tables, problem, s, first, end, &edge) && edge.bound < loops->target.ns)
            loop_place_extend(&loops->target, s, &edge, end, from, place_at(loops, s, first));
    }
    problem->work += seen / 16;
}

// Whether any plan may take less than the target.
static bool can_reach(void *self, uint64_t target_ns)
{
    struct loops *loops = self;
    const struct problem *problem = loops->search->problem;
    const struct tables *tables = &loops->search->tables;
    loop_target_set(&loops->target, target_ns, tables->before[table_cell(tables, problem->ranks, problem->layers)]);
    for (size_t i = 0; i < ((size_t)problem->ranks + 1) * (problem->layers + 1); i++)
        loops->places[i].count = 0;
    *place_at(loops, problem->ranks, problem->layers) = loop_place_last();
    for (uint32_t s = problem->ranks; s-- > 0;)
        for (uint32_t first = s; first < problem->layers; first++)
            extend_place(loops, s, first);
    return place_at(loops, 0, 0)->count > 0;
}

// --- the plan that reaches it -----------------------------------------------------

static void read_cuts(struct loops *loops)
{
    const uint32_t ranks = loops->search->problem->ranks;
    uint32_t at = 0;
    loops->decision.cuts[0] = 0;
    for (uint32_t s = 0; s < ranks; s++) {
        const struct loop loop = place_at(loops, s, loops->decision.cuts[s])->loops[at];
        loops->decision.cuts[s + 1] = loop.end;
        at = loop.next;
    }
}

// Whether the plan is what it looked like: nothing new came out about what its stages
// must recompute. `fits` where it is a plan at all.
static bool price_plan(struct loops *loops, bool *as_known, bool *fits)
{
    struct problem *problem = loops->search->problem;
    struct decision *decision = &loops->decision;
    *as_known = *fits = true;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const uint32_t first = decision->cuts[s], end = decision->cuts[s + 1];
        const uint64_t before = problem_recompute_ns(problem, s, first, end);
        const struct choices *choices = problem_least(problem, s, first, end, loops->error);
        if (!choices)
            return false;
        *fits &= choices->count > 0;
        *as_known &= problem_recompute_ns(problem, s, first, end) == before;
        decision->forward_ns[s] = choices->count > 0 ? choices->forward_ns[0] : 0;
        decision->recompute_ns[s] = choices->count > 0 ? choices->recompute_ns[0] : 0;
    }
    return true;
}

static void score(struct loops *loops)
{
    const uint64_t value = search_score(loops->search, &loops->decision);
    if (value >= loops->start_ns)
        return;
    loops->start_ns = value;
    decision_copy(&loops->start, &loops->decision, loops->search->problem->ranks);
}

// --- the whole --------------------------------------------------------------------

static bool must_stop(const void *self)
{
    const struct loops *loops = self;
    return loops->search->problem->work > loops->until || problem_must_stop(loops->search->problem);
}

// False if the best plan itself is ruled out.
static bool rule_out(struct loops *loops, uint64_t *low_ns)
{
    const struct loop_asker asker = { loops, can_reach, must_stop };
    return loop_target_raise(&asker, loops->search->best_ns, low_ns);
}

// Plans that are not ruled out are priced until they are what they looked like.
static bool raise_bound(struct loops *loops, uint64_t *bound_ns)
{
    struct search *search = loops->search;
    bool as_known = false, fits = false;
    while (!as_known && rule_out(loops, bound_ns)) {
        search->problem->progress.bound_ns = *bound_ns;
        read_cuts(loops);
        if (!price_plan(loops, &as_known, &fits))
            return false;
        if (fits)
            score(loops);
        if (must_stop(loops))
            return true;
    }
    search->problem->progress.bound_ns = *bound_ns;
    return true;
}

bool search_loops(struct search *search, uint64_t until, uint64_t *bound_ns, struct error *error)
{
    const uint32_t ranks = search->problem->ranks, layers = search->problem->layers;
    struct loops loops = { .search = search, .start_ns = NO_WAY, .until = until, .error = error };
    loops.places = malloc(((size_t)ranks + 1) * ((size_t)layers + 1) * sizeof loops.places[0]);
    bool good = loop_target_create(&loops.target, &search->problem->pattern, error)
             && decision_create(&loops.decision, ranks, error) && decision_create(&loops.start, ranks, error);
    if (!loops.places)
        good = error_no_memory(error, "a search");
    good = good && raise_bound(&loops, bound_ns)
        && (loops.start_ns == NO_WAY || search_descend(search, &loops.start, error));
    if (good && *bound_ns < search->best_ns) {
        can_reach(&loops, search->best_ns);
        for (size_t i = 0; i < ((size_t)ranks + 1) * (layers + 1); i++)
            search->tables.is_closed[i] = loops.places[i].count == 0;
    }
    decision_clear(&loops.decision);
    decision_clear(&loops.start);
    free(loops.places);
    loop_target_clear(&loops.target);
    return good;
}
