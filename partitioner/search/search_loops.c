// Is there a plan that takes less than a target? Stage after stage, from the last one
// up, each place to cut gets the loops (pattern.h) that plans behind it may have in
// progress; what would make any path as long as the target is left out.
//
//     stage        k          k + 1        k + 2
//               [17, 21)     [21, 26)     [26, 30)
//     at 26:                              FB = 9              a loop of 1 stage, 9
//     at 21:                 8 --c = 3--> 9                   a loop of 2 stages, 20; or of 1 stage, 8
//
// A plan has many loops; one is enough. The one that is carried on is the one that is
// most above what its stages may take; where that is less than nothing it is dropped
// for the stage's own. With it goes what one micro-batch takes from there on. Of loops of
// as many stages those are kept of which no other is shorter in both, so for any plan
// through that place there is one that is not longer than the same loop of that plan:
// where nothing is left at the model's beginning, no plan takes less than the target.
//
// The largest target that is ruled out is a bound; what is left over just above it is a
// good plan. What stages must recompute is worked out only for those plans, as often
// as it changes what the next one looks like: of the hundred thousands of intervals of
// a large model a few hundred.
#include <stdlib.h>

#include "partitioner/search/search_state.h"

#define MOST_LOOPS 20

struct loop {
    uint64_t ns;
    uint64_t rounds;  // of all stages from here on
    uint32_t end;     // of the first of them
    uint16_t stages;
    uint16_t next;    // which loop at `end` it goes on to
};

struct place {
    struct loop loops[MOST_LOOPS];
    uint32_t count;
};

struct loops {
    struct search *search;
    struct place *places;  // as the cells of the tables
    uint64_t *shares;      // what stages may take of the target, as running sums from stage 0 on
    uint64_t target_ns;
    struct decision decision;
    struct decision start;  // the best so far of those that were read off
    uint64_t start_ns;
    struct error *error;
};

// --- one target -------------------------------------------------------------------

static struct place *place_at(const struct loops *loops, uint32_t k, uint32_t cut)
{
    return &loops->places[table_cell(&loops->search->tables, k, cut)];
}

// About what is left of the target for each micro-batch, once one went all the way.
static void share_target(struct loops *loops)
{
    const struct problem *problem = loops->search->problem;
    const struct tables *tables = &loops->search->tables;
    const uint64_t all = tables->before[table_cell(tables, problem->ranks, problem->layers)];
    const uint64_t left = loops->target_ns > all ? loops->target_ns - all : 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const uint64_t idle = problem->pattern.goes_on ? 1 : problem->pattern.warm[s] / 2;
        const uint64_t times = problem->pattern.counted > idle ? problem->pattern.counted - idle : 1;
        loops->shares[s + 1] = loops->shares[s] + left / times;
    }
}

static bool is_beaten(const struct loop *loop, const struct loop *by)
{
    return by->stages == loop->stages && by->ns <= loop->ns && by->rounds <= loop->rounds;
}

static void remove_beaten(struct place *place, const struct loop *by)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < place->count; i++)
        if (!is_beaten(&place->loops[i], by))
            place->loops[kept++] = place->loops[i];
    place->count = kept;
}

// Where there is no room, one that is as short as both stands for two; the last room is
// for loops of one stage, which takes `work_ns`, so that there always are two.
static void keep_loop(struct place *place, struct loop loop, uint64_t work_ns)
{
    for (uint32_t i = 0; i < place->count; i++)
        if (is_beaten(&loop, &place->loops[i]))
            return;
    remove_beaten(place, &loop);
    if (place->count < (loop.stages == 1 ? MOST_LOOPS : MOST_LOOPS - 1)) {
        place->loops[place->count++] = loop;
        return;
    }
    for (uint32_t i = 0; i < place->count; i++) {
        struct loop *both = &place->loops[i];
        if (both->stages != loop.stages)
            continue;
        both->ns = loop.ns < both->ns ? loop.ns : both->ns;
        both->rounds = loop.rounds < both->rounds ? loop.rounds : both->rounds;
        return;
    }
    loop.stages = 1;
    loop.ns = work_ns;
    keep_loop(place, loop, work_ns);
}

// The loops that go on through stage s of this edge.
static void extend_loops(struct loops *loops, uint32_t s, uint32_t first, uint32_t end, const struct table_edge *edge)
{
    const struct problem *problem = loops->search->problem;
    const struct pattern *pattern = &problem->pattern;
    const uint64_t work = edge->stage.forward_ns + edge->stage.backward_ns;
    struct place *to = place_at(loops, s, first), *from = place_at(loops, s + 1, end);
    for (uint32_t i = 0; i < from->count; i++) {
        const struct loop *old = &from->loops[i];
        struct loop loop = { work, old->rounds + edge->round, end, 1, (uint16_t)i };
        const uint64_t share = loops->shares[s + 1 + old->stages] - loops->shares[s + 1];
        if (pattern_can_loop(pattern, s) && old->ns + edge->way > share) {
            loop.ns += edge->way + old->ns;
            loop.stages += old->stages;
        }
        const uint64_t own = loop.rounds - work, known = edge->way + edge->behind;
        const uint64_t after = own > known ? own : known;
        if (pattern_stage_bound(pattern, s, &edge->stage, edge->before, after) < loops->target_ns
            && pattern_loop_bound(pattern, s, loop.stages, loop.ns, edge->before, after, &edge->stage)
                   < loops->target_ns)
            keep_loop(to, loop, work);
    }
}

static void extend_place(struct loops *loops, uint32_t s, uint32_t first)
{
    struct problem *problem = loops->search->problem;
    const struct tables *tables = &loops->search->tables;
    if (tables->before[table_cell(tables, s, first)] == NO_WAY)
        return;
    uint32_t seen = 0;
    for (uint32_t end = first + 1; end <= problem->layers; end++) {
        if (tables_is_too_long(problem, s, first, end, loops->target_ns))
            break;
        if (!tables_can_end(problem, s, end) || place_at(loops, s + 1, end)->count == 0)
            continue;
        struct table_edge edge;
        seen++;
        if (tables_edge(tables, problem, s, first, end, &edge) && edge.bound < loops->target_ns)
            extend_loops(loops, s, first, end, &edge);
    }
    problem->work += seen / 16;
}

// Whether any plan may take less than the target.
static bool can_reach(struct loops *loops, uint64_t target_ns)
{
    const struct problem *problem = loops->search->problem;
    loops->target_ns = target_ns;
    share_target(loops);
    for (size_t i = 0; i < ((size_t)problem->ranks + 1) * (problem->layers + 1); i++)
        loops->places[i].count = 0;
    *place_at(loops, problem->ranks, problem->layers) = (struct place){ .count = 1 };
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

// Targets are told apart to 1 in so many.
#define PRECISION 4096

static bool must_stop(const struct loops *loops, uint64_t until)
{
    return loops->search->problem->work > until || problem_must_stop(loops->search->problem);
}

// Raises the bound to the largest target that what is known rules out; steps become
// longer as long as they succeed. False if the best plan itself is ruled out.
static bool rule_out(struct loops *loops, uint64_t until, uint64_t *low)
{
    uint64_t high = loops->search->best_ns, step = 1 + high / PRECISION;
    if (*low >= high || !can_reach(loops, high)) {
        *low = high;
        return false;
    }
    while (high - *low > 1 + high / PRECISION && !must_stop(loops, until)) {
        const uint64_t half = *low + (high - *low) / 2;
        const uint64_t target = *low + step < half ? *low + step : half;
        if (can_reach(loops, target)) {
            high = target;
        } else {
            *low = target;
            step *= 4;
        }
    }
    if (loops->target_ns != high)
        can_reach(loops, high);
    return true;
}

// Plans that are not ruled out are priced until they are what they looked like.
static bool raise_bound(struct loops *loops, uint64_t until, uint64_t *bound_ns)
{
    struct search *search = loops->search;
    bool as_known = false, fits = false;
    while (!as_known && rule_out(loops, until, bound_ns)) {
        search->problem->progress.bound_ns = *bound_ns;
        read_cuts(loops);
        if (!price_plan(loops, &as_known, &fits))
            return false;
        if (fits)
            score(loops);
        if (must_stop(loops, until))
            return true;
    }
    search->problem->progress.bound_ns = *bound_ns;
    return true;
}

bool search_loops(struct search *search, uint64_t until, uint64_t *bound_ns, struct error *error)
{
    const uint32_t ranks = search->problem->ranks, layers = search->problem->layers;
    struct loops loops = { .search = search, .start_ns = NO_WAY, .error = error };
    loops.places = malloc(((size_t)ranks + 1) * ((size_t)layers + 1) * sizeof loops.places[0]);
    loops.shares = calloc((size_t)ranks + 2, sizeof loops.shares[0]);
    bool good = decision_create(&loops.decision, ranks, error) && decision_create(&loops.start, ranks, error);
    if (!loops.places || !loops.shares)
        good = error_no_memory(error, "a search");
    good = good && raise_bound(&loops, until, bound_ns)
        && (loops.start_ns == NO_WAY || search_descend(search, &loops.start, error));
    if (good && *bound_ns < search->best_ns) {
        can_reach(&loops, search->best_ns);
        for (size_t i = 0; i < ((size_t)ranks + 1) * (layers + 1); i++)
            search->tables.is_closed[i] = loops.places[i].count == 0;
    }
    decision_clear(&loops.decision);
    decision_clear(&loops.start);
    free(loops.places);
    free(loops.shares);
    return good;
}
