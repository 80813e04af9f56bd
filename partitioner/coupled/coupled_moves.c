// Small moves, by simulated time: the first that helps is taken, until none does; then
// the best is shaken and it begins again, until the work is used up.
//
//     one cut moves by a layer       | a b c | d e |      ->   | a b | c d e |
//     several do, alike              | a b | c d | e f |  ->   | a | b c | d e f |
//     a rank spares another of its stages from recomputation
//
// The second keeps all stages but two about as long, however far apart these two are:
// with several stages on a rank that is what evens out ranks.
#include "common/random.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/search/search_request.h"

enum { MOST_SHAKES = 400, MOST_STRIDE = 4 };

struct moves {
    struct coupled *coupled;
    struct coupled_state *best;    // of all
    struct coupled_state now, trial;
    uint64_t until;                // work
    bool failed;
};

static bool is_over(struct moves *moves)
{
    const bool is_enough = moves->coupled->request->any && moves->now.most_lacking == 0;
    return is_enough || moves->failed || moves->coupled->work > moves->until || coupled_must_stop(moves->coupled);
}

// The next place to cut from `cut` on, `layers` away; 0 where there is none.
static uint32_t moved(const struct coupled *coupled, uint32_t cut, int layers)
{
    const int step = layers < 0 ? -1 : 1;
    int64_t at = cut;
    for (int left = layers * step; left > 0; left--) {
        do
            at += step;
        while (at > 0 && at < coupled->layers && !coupled->can_cut[at]);
        if (at <= 0 || at >= coupled->layers)
            return 0;
    }
    return (uint32_t)at;
}

// Moves cuts [from, to) of the trial; false where a stage would be empty.
static bool move_cuts(struct moves *moves, uint32_t from, uint32_t to, int layers)
{
    uint32_t *cuts = moves->trial.decision.cuts;
    for (uint32_t c = from; c < to; c++) {
        cuts[c] = moved(moves->coupled, moves->now.decision.cuts[c], layers);
        if (cuts[c] == 0 || !search_pins_allow(moves->coupled->request, c, cuts[c]))
            return false;
    }
    for (uint32_t c = from; c <= to; c++)
        if (cuts[c] <= cuts[c - 1])
            return false;
    return true;
}

// Takes the trial, whose stages [from, to) differ from now, if it is better.
static bool judge(struct moves *moves, uint32_t from, uint32_t to, struct error *error)
{
    if (!coupled_complete(moves->coupled, &moves->trial, from, to, error)) {
        moves->failed = true;
        return false;
    }
    if (!coupled_is_better(&moves->trial, &moves->now))
        return false;
    coupled_state_copy(&moves->now, &moves->trial, moves->coupled);
    return true;
}

static bool try_cuts(struct moves *moves, uint32_t from, uint32_t to, int layers, struct error *error)
{
    coupled_state_copy(&moves->trial, &moves->now, moves->coupled);
    return move_cuts(moves, from, to, layers) && judge(moves, from - 1, to, error);
}

static bool try_spare(struct moves *moves, uint32_t rank, uint32_t which, struct error *error)
{
    const struct placement *placement = moves->coupled->placement;
    const uint32_t s = placement->held[placement->stage_at[rank]];
    coupled_state_copy(&moves->trial, &moves->now, moves->coupled);
    if (moves->trial.decision.spared[rank] == which)
        return false;
    moves->trial.decision.spared[rank] = which;
    return judge(moves, s, s + 1, error);
}

// Whether anything on the rank is recomputed, so that sparing can matter.
static bool recomputes(const struct moves *moves, uint32_t rank)
{
    const struct placement *placement = moves->coupled->placement;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++)
        if (moves->now.recompute_ns[placement->held[at]] > 0)
            return placement->stage_at[rank + 1] - placement->stage_at[rank] > 1;
    return false;
}

static bool move_once(struct moves *moves, struct error *error)
{
    const uint32_t stages = moves->coupled->stages;
    bool helped = false;
    for (uint32_t width = 1; width < stages; width++)
        for (uint32_t from = 1; from + width <= stages; from++)
            for (int layers = 1; layers <= (width == 1 ? MOST_STRIDE : 1); layers *= 2) {
                if (is_over(moves))
                    return false;
                helped |= try_cuts(moves, from, from + width, layers, error)
                       || try_cuts(moves, from, from + width, -layers, error);
            }
    for (uint32_t r = 0; r < moves->coupled->ranks; r++) {
        const uint32_t held = moves->coupled->placement->stage_at[r + 1] - moves->coupled->placement->stage_at[r];
        for (uint32_t i = 0; recomputes(moves, r) && i <= held && !is_over(moves); i++)
            helped |= try_spare(moves, r, i < held ? i : SPARES_NONE, error);
    }
    return helped;
}

// A few cuts of the best, moved at random.
static bool shake(struct moves *moves, uint64_t *seed, struct error *error)
{
    struct coupled *coupled = moves->coupled;
    coupled_state_copy(&moves->now, moves->best, coupled);
    const uint32_t kicks = 1 + (uint32_t)random_below(seed, 3);
    for (uint32_t kick = 0; kick < kicks && coupled->stages > 1; kick++) {
        const uint32_t cut = 1 + (uint32_t)random_below(seed, coupled->stages - 1);
        const int layers = random_below(seed, 2) ? 1 : -1;
        coupled_state_copy(&moves->trial, &moves->now, coupled);
        if (move_cuts(moves, cut, cut + 1, layers))
            coupled_state_copy(&moves->now, &moves->trial, coupled);
    }
    return coupled_complete(coupled, &moves->now, 0, coupled->stages, error);
}

static bool improve(struct moves *moves, struct error *error)
{
    uint64_t seed = 1;
    for (int shakes = 0; !is_over(moves) && shakes <= MOST_SHAKES; shakes++) {
        if (shakes > 0 && !shake(moves, &seed, error))
            return false;
        while (move_once(moves, error))
            continue;
        if (coupled_is_better(&moves->now, moves->best)) {
            coupled_state_copy(moves->best, &moves->now, moves->coupled);
            shakes = 0;
        }
    }
    return !moves->failed;
}

bool coupled_improve(struct coupled *coupled, struct coupled_state *best, uint64_t work, struct error *error)
{
    struct moves moves = { .coupled = coupled, .best = best, .until = coupled->work + work };
    bool good = coupled_state_create(&moves.now, coupled, error) && coupled_state_create(&moves.trial, coupled, error);
    if (good) {
        coupled_state_copy(&moves.now, best, coupled);
        good = improve(&moves, error);
    }
    coupled_state_clear(&moves.now);
    coupled_state_clear(&moves.trial);
    return good;
}
