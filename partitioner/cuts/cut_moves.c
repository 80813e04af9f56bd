// Local search: moves, judged by simulated time.
//
//     one cut by some places          | a b c | d e |        ->   | a b | c d e |
//     a row of cuts, alike            | a b | c d | e f |    ->   | a | b c | d e f |
//     a stage split, two made one     | a b c d | e | f |    ->   | a b | c d | e f |
//     layers across, in a graph       | a b | c d |          ->   | a | b c d |  (and all of its stage that needs b)
//
// First every move that helps is taken, until none does (descent). Then moves are drawn at random, with half of what
// is left of the budget. They are accepted even if they lose a little, and ever less (threshold accepting, Dueck and
// Scheuer 1990).
//
// The other half goes to iterated local search (Lourenço, Martin and Stützle 2003). It makes some moves away from the
// best plan, whatever they lose, and continues from there. It is used only in a chain with one stage on each rank,
// since elsewhere threshold accepting found more. Most moves are rejected by the work of a single rank, and only the
// others are simulated.
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "partitioner/cuts/cut_search.h"

enum { MOST_STEP = 16 };

// The part of its time that a plan may lose at first: that of so many layers in the model, but at most MOST_WARMTH.
#define WARMTH_LAYERS 6.5
#define MOST_WARMTH 0.15

struct moves {
    struct cut_problem *problem;
    struct cut_state *best;        // the best so far
    struct cut_state now, trial;
    uint32_t *layers;              // scratch
    uint64_t limit_ns;             // a trial must be quicker than this
    struct search_part part;
    uint64_t seed;
    bool splits_anywhere;          // else stages are split about in the middle
    bool failed;
    struct error *error;
};

static bool is_over(struct moves *moves)
{
    const bool is_enough = moves->problem->request->wanted.any && moves->best->most_lacking == 0;
    return is_enough || moves->failed || part_is_over(moves->problem->context, &moves->part);
}

// --- cuts -------------------------------------------------------------------------------------

// The trial gets the cuts of `now`. Most moves are impossible, so all else follows in complete().
static void begin_trial(struct moves *moves)
{
    memcpy(moves->trial.cuts, moves->now.cuts, (moves->problem->stages + (size_t)1) * sizeof moves->now.cuts[0]);
}

// The place some steps further on, or back, strictly between two others; NO_PLACE if there is none. In a graph a step
// of n moves the nth layer across, with what goes with it.
static uint32_t step_from(struct moves *moves, uint32_t place, uint32_t inner, uint32_t outer, int64_t steps)
{
    struct places *places = moves->problem->places;
    if (places->is_chain) {
        const int64_t to = (int64_t)place + steps;
        return to > inner && to < outer ? (uint32_t)to : NO_PLACE;
    }
    const bool back = steps < 0;
    const int64_t nth = back ? -steps : steps;
    const uint32_t count = back ? places_between(places, inner, place, moves->layers)
                                : places_between(places, place, outer, moves->layers);
    if (nth > count)
        return NO_PLACE;
    const uint32_t layer = moves->layers[back ? count - nth : nth - 1];
    return places_move(places, place, back ? inner : outer, layer);
}

// Moves cut `c` of the trial between its neighbours. False if the result is no plan.
static bool move_cut(struct moves *moves, uint32_t c, int64_t steps)
{
    uint32_t *cuts = moves->trial.cuts;
    const uint32_t to = step_from(moves, cuts[c], cuts[c - 1], cuts[c + 1], steps);
    if (to == NO_PLACE || !cut_may_end(moves->problem, c - 1, to))
        return false;
    cuts[c] = to;
    if (moves->problem->places->is_chain)
        return true;
    moves->failed |= !cut_problem_see_places(moves->problem, moves->error);
    return !moves->failed;
}

// Moves cuts [from, to) by one step each. The foremost in the direction of the move goes first.
static bool move_row(struct moves *moves, uint32_t from, uint32_t to, bool back)
{
    for (uint32_t i = from; i < to; i++)
        if (!move_cut(moves, back ? i : to - 1 - (i - from), back ? -1 : 1))
            return false;
    return true;
}

// Joins stage `joined` with the one behind it, and splits stage `split` after about the fraction `part` of its
// layers.
static bool rejoin(struct moves *moves, uint32_t joined, uint32_t split, double part)
{
    struct places *places = moves->problem->places;
    uint32_t *cuts = moves->trial.cuts;
    const uint32_t inner = cuts[split], outer = cuts[split + 1];
    const uint32_t layers = places_size(places, outer) - places_size(places, inner);
    const uint32_t steps = places->is_chain ? outer - inner : layers;
    if (split == joined || split == joined + 1 || steps < 2)
        return false;
    const uint32_t place = step_from(moves, inner, inner, outer, 1 + (int64_t)(part * (steps - 1)));
    if (place == NO_PLACE)
        return false;
    if (!places->is_chain && !cut_problem_see_places(moves->problem, moves->error)) {
        moves->failed = true;
        return false;
    }
    if (split < joined) {
        for (uint32_t c = joined + 1; c > split + 1; c--)
            cuts[c] = cuts[c - 1];
        cuts[split + 1] = place;
    } else {
        for (uint32_t c = joined + 1; c < split; c++)
            cuts[c] = cuts[c + 1];
        cuts[split] = place;
    }
    const uint32_t from = split < joined ? split : joined, to = split < joined ? joined + 1 : split;
    for (uint32_t c = from; c <= to; c++)
        if (c > 0 && c < moves->problem->stages && !cut_may_end(moves->problem, c - 1, cuts[c]))
            return false;
    return true;
}

// --- judging ----------------------------------------------------------------------------------

// Completes the trial, whose stages [from, to) differ from `now`. Returns whether it is better than the limit or, if
// `now` does not fit, no worse than `now`.
static bool complete(struct moves *moves, uint32_t from, uint32_t to)
{
    const uint64_t limit = moves->now.most_lacking == 0 ? moves->limit_ns : NO_TIME;
    cut_state_copy_all_but_cuts(&moves->trial, &moves->now, moves->problem);
    if (!cut_state_complete(moves->problem, &moves->trial, from, to, limit, moves->error)) {
        moves->failed = true;
        return false;
    }
    if (moves->now.most_lacking > 0)
        return !cut_state_is_better(&moves->now, &moves->trial);
    return moves->trial.most_lacking == 0 && moves->trial.value_ns < limit;
}

static void take_trial(struct moves *moves)
{
    struct cut_state *best = moves->best;
    cut_state_copy(&moves->now, &moves->trial, moves->problem);
    if (cut_state_is_better(&moves->now, best)
        || (moves->now.most_lacking == 0 && best->most_lacking == 0 && moves->now.value_ns == best->value_ns
            && cut_state_is_before(&moves->now, best, moves->problem->stages))) {
        cut_state_copy(best, &moves->now, moves->problem);
        if (best->most_lacking == 0)
            moves->problem->context->best_ns = best->value_ns;
    }
}

// A descent takes only what is strictly better.
static bool take_if_better(struct moves *moves, uint32_t from, uint32_t to)
{
    moves->limit_ns = moves->now.value_ns;
    if (!complete(moves, from, to) || !cut_state_is_better(&moves->trial, &moves->now))
        return false;
    take_trial(moves);
    return true;
}

// --- descent ------------------------------------------------------------------------------------

static bool try_cut(struct moves *moves, uint32_t c, int64_t steps)
{
    begin_trial(moves);
    return move_cut(moves, c, steps) && take_if_better(moves, c - 1, c + 1);
}

static bool descend_cuts(struct moves *moves)
{
    const struct places *places = moves->problem->places;
    bool helped = false;
    for (uint32_t c = 1; c < moves->problem->stages; c++) {
        // In a graph every layer is tried by itself.
        const uint32_t most = places->is_chain ? MOST_STEP : places->layers;
        for (int64_t steps = 1; steps <= most; steps = places->is_chain ? 2 * steps : steps + 1) {
            if (is_over(moves))
                return helped;
            const uint32_t *cuts = moves->now.cuts;
            const uint32_t behind = places_size(places, cuts[c + 1]) - places_size(places, cuts[c]);
            const uint32_t before = places_size(places, cuts[c]) - places_size(places, cuts[c - 1]);
            if (steps >= behind && steps >= before)
                break;
            helped |= try_cut(moves, c, steps);
            helped |= try_cut(moves, c, -steps);
        }
    }
    return helped;
}

static bool descend_rows(struct moves *moves)
{
    const uint32_t stages = moves->problem->stages, widest = stages < 40 ? stages : 40;
    bool helped = false;
    for (uint32_t width = 2; width < widest; width++)
        for (uint32_t from = 1; from + width <= stages; from++)
            for (int back = 0; back < 2; back++) {
                if (is_over(moves))
                    return helped;
                begin_trial(moves);
                helped |= move_row(moves, from, from + width, back) && take_if_better(moves, from - 1, from + width);
            }
    return helped;
}

static bool descend_joins(struct moves *moves)
{
    const uint32_t stages = moves->problem->stages;
    bool helped = false;
    for (uint32_t joined = 0; joined + 1 < stages && stages <= 64; joined++)
        for (uint32_t split = 0; split < stages; split++) {
            if (is_over(moves))
                return helped;
            begin_trial(moves);
            helped |= rejoin(moves, joined, split, 0.5)
                   && take_if_better(moves, split < joined ? split : joined, (split < joined ? joined + 1 : split) + 1);
        }
    return helped;
}

static void descend(struct moves *moves)
{
    for (bool helped = true; helped && !is_over(moves);) {
        helped = descend_cuts(moves);
        helped |= descend_rows(moves);
        helped |= descend_joins(moves);
    }
}

// --- threshold accepting -------------------------------------------------------------------------------

// Draws a move at random: sets the trial, and which stages it changes.
static bool draw(struct moves *moves, uint32_t *from, uint32_t *to)
{
    const uint32_t stages = moves->problem->stages;
    const uint32_t c = 1 + (uint32_t)random_below(&moves->seed, stages - 1);
    const uint64_t kind = random_below(&moves->seed, 8);
    const bool back = random_below(&moves->seed, 2);
    begin_trial(moves);
    if (kind < 4 || stages < 3) {
        const int64_t steps = 1 + (int64_t)random_below(&moves->seed, (uint64_t)1 << random_below(&moves->seed, 5));
        *from = c - 1;
        *to = c + 1;
        return move_cut(moves, c, back ? -steps : steps);
    }
    if (kind < 6) {
        const uint32_t width = 2 + (uint32_t)random_below(&moves->seed, 3);
        *from = c - 1;
        *to = c + width < stages ? c + width : stages;
        return move_row(moves, c, *to, back);
    }
    const uint32_t split = (uint32_t)random_below(&moves->seed, stages), joined = c - 1;
    *from = split < joined ? split : joined;
    *to = (split < joined ? joined + 1 : split) + 1;
    const double part = random_unit(&moves->seed);
    return rejoin(moves, joined, split, moves->splits_anywhere ? part : 0.25 + 0.5 * part);
}

static void try_any(struct moves *moves, uint64_t limit_ns)
{
    uint32_t from, to;
    moves->problem->context->work++;
    moves->limit_ns = limit_ns;
    if (draw(moves, &from, &to) && complete(moves, from, to))
        take_trial(moves);
}

static void wander(struct moves *moves, double heat, struct search_part part)
{
    struct search_context *context = moves->problem->context;
    const double share = WARMTH_LAYERS / moves->problem->places->layers;
    heat *= share < MOST_WARMTH ? share : MOST_WARMTH;
    while (!is_over(moves) && !part_is_over(context, &part)) {
        const double warmth = heat * (1 - part_done(context, &part)) * (double)moves->now.value_ns;
        const double loss = random_unit(&moves->seed) * warmth;
        try_any(moves, moves->now.value_ns + 1 + (uint64_t)loss);
    }
}

// Draws moves until PATIENCE in a row have not helped.
static void settle(struct moves *moves, const struct search_part *part)
{
    enum { PATIENCE = 2000 };
    for (unsigned idle = 0; idle < PATIENCE && !is_over(moves) && !part_is_over(moves->problem->context, part);) {
        const uint64_t before_ns = moves->now.value_ns;
        try_any(moves, before_ns + 1);
        idle = moves->now.value_ns < before_ns ? 0 : idle + 1;
    }
}

// Makes some moves away from the best plan, whatever they lose, and settles. If memory is tight, most moves are
// impossible, and moves that lose little lead nowhere.
static void hop(struct moves *moves, struct search_part part)
{
    enum { MOST_AWAY = 30 };
    moves->splits_anywhere = true;
    settle(moves, &part);
    while (moves->best->most_lacking == 0 && !is_over(moves) && !part_is_over(moves->problem->context, &part)) {
        cut_state_copy(&moves->now, moves->best, moves->problem);
        for (uint64_t left = 1 + random_below(&moves->seed, MOST_AWAY); left > 0; left--)
            try_any(moves, NO_TIME);
        settle(moves, &part);
    }
}

bool cut_improve(struct cut_problem *problem, struct cut_state *best, struct search_part part, struct error *error)
{
    enum { ROUNDS = 4, WARM_ROUNDS = 2 };
    struct moves moves = { .problem = problem, .best = best, .part = part, .seed = 1, .error = error };
    const bool hops = problem->schedule.is_alone && problem->places->is_chain;
    // This search makes other moves than the shorter ones, with whose best plan it begins.
    if (hops)
        moves.seed = problem->context->budget;
    moves.layers = malloc((problem->places->layers + (size_t)1) * sizeof moves.layers[0]);
    bool good = moves.layers || error_no_memory(error, "a search");
    good = good && cut_state_create(&moves.now, problem, error) && cut_state_create(&moves.trial, problem, error);
    if (good)
        cut_state_copy(&moves.now, best, problem);
    if (good && best->is_exact)  // choices of another table; moves use `narrow`
        good = cut_state_complete(problem, &moves.now, 0, problem->stages, NO_TIME, error);
    for (unsigned round = 0; good && round < ROUNDS && !is_over(&moves) && problem->stages > 1; round++) {
        descend(&moves);
        const struct search_part share = part_split(problem->context, &part, 1, ROUNDS - round);
        if (round < WARM_ROUNDS || !hops)
            wander(&moves, 1.0 / (1 << (2 * round)), share);
        else
            hop(&moves, share);
        if (!best->is_exact)
            cut_state_copy(&moves.now, best, problem);
        descend(&moves);
        good = !moves.failed;
    }
    free(moves.layers);
    cut_state_clear(&moves.now);
    cut_state_clear(&moves.trial);
    return good;
}

bool cut_sharpen(struct cut_problem *problem, struct cut_state *best, struct error *error)
{
    struct cut_state sharp;
    const struct cut_schedule *schedule = &problem->schedule;
    if (problem->request->wanted.any || !schedule->is_alone || best->most_lacking > 0 || best->is_exact
        || !problem->is_monotone || problem->request->storage.activations_on_host)
        return true;
    bool good = cut_state_create(&sharp, problem, error), recomputes = false;
    if (good)
        cut_state_copy(&sharp, best, problem);
    for (uint32_t s = 0; good && s < problem->stages; s++) {
        if (sharp.of[s].choice == NOT_RECOMPUTED)
            continue;
        const struct stage_price *price =
            stage_price_choices(problem, &problem->exact, s, sharp.cuts[s], sharp.cuts[s + 1], error);
        good = price != NULL;
        recomputes = true;
        if (!good || !price->fits || price->choices[0].forward_ns > sharp.of[s].recompute_ns) {
            cut_state_clear(&sharp);
            return good;
        }
        sharp.of[s].choice = 0;
        sharp.of[s].recompute_ns = price->choices[0].forward_ns;
        sharp.of[s].away = price->choices[0].away;
    }
    if (good && recomputes) {
        sharp.is_exact = true;
        sharp.value_ns = cut_state_time(problem, &sharp, NO_TIME);
        if (cut_state_is_better(&sharp, best))
            cut_state_copy(best, &sharp, problem);
    }
    cut_state_clear(&sharp);
    return good;
}
