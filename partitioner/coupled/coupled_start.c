// A decision to begin with: stages whose ranks are evenly busy.
//
// A dynamic program over the cuts, stage by stage, keeps the least of the largest
//
//     busy of the stage, with what it must recompute     + busy of the rank's other stages
//     in its share of the rank's memory (a guess)
//
// Which other stages a rank has is not known while the cuts are chosen, so there are
// rounds: first memory counts for nothing; then every stage has an even share of its
// rank's, and no company; then each has what the others left over in the round before,
// and their company. The best round by simulated time is taken. Where nothing fits,
// what lacks least counts.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/search/search_request.h"

enum { ROUNDS = 5 };

// What lacks this much takes longer than anything that fits.
#define LACKING ((uint64_t)1 << 62)

struct start {
    struct coupled *coupled;
    uint64_t *share;      // of each stage, in bytes
    uint64_t *company;    // busy of the other stages of its rank
    uint64_t longest;     // no stage is busy for longer, before anything is recomputed
    uint64_t *cost;       // least of the largest, of the first s stages up to layer l: [s * (layers + 1) + l]
    uint32_t *from;       // the cut before
    struct coupled_state state;
    bool has_best;
};

// Where in placement->held stage s of its busiest rank stands.
static uint32_t place_of(const struct coupled *coupled, uint32_t s)
{
    uint32_t place = UINT32_MAX;
    for (uint32_t at = 0; at < coupled->placement->stage_at[coupled->ranks]; at++)
        if (coupled->work_of[at].stage == s
            && (place == UINT32_MAX || coupled->work_of[at].forwards > coupled->work_of[place].forwards))
            place = at;
    return place;
}

// What layers [first, end), busy for so long, cost as stage s. What they must recompute
// is taken for as large a part of them as what they lack is of what they keep.
static bool cost_of(struct start *start, uint32_t s, uint32_t place, uint32_t first, uint32_t end, uint64_t busy,
                    uint64_t *cost, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const struct intervals *intervals = coupled->intervals[s];
    const struct coupled_stage *of = coupled_stage_of(coupled, &coupled->narrow, s, first, end, error);
    if (!of)
        return false;
    *cost = busy + start->company[s];
    const uint64_t needs = add_clamped(of->bytes, of->workspace_bytes);
    if (needs <= start->share[s])
        return true;
    const uint64_t lacks = needs - start->share[s];
    const uint64_t kept = multiply_clamped(coupled->slots[s].kept, intervals->saved[end] - intervals->saved[first])
                        / coupled->order->splits;
    if (lacks > kept) {
        *cost = LACKING + (lacks - kept < LACKING ? lacks - kept : LACKING);
        return true;
    }
    const unsigned __int128 again = (unsigned __int128)interval_recompute_ns(intervals, first, end) * lacks / kept;
    *cost = coupled_busy_ns(coupled, place, first, end, (uint64_t)again) + start->company[s];
    return true;
}

// The best place for the first layer of stage s that ends before layer `end`: from the
// last layer back, until the stage alone takes longer than the best.
static bool choose_first(struct start *start, uint32_t s, uint32_t place, uint32_t end, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const size_t row = (size_t)coupled->layers + 1;
    uint64_t *best = &start->cost[(s + 1) * row + end];
    for (uint32_t first = end; first-- > s;) {
        const uint64_t before = start->cost[s * row + first];
        const uint64_t busy = coupled_busy_ns(coupled, place, first, end, 0);
        uint64_t own;
        if (busy > start->longest || (*best < LACKING && busy + start->company[s] >= *best))
            return true;
        if (before >= *best)
            continue;
        if (!cost_of(start, s, place, first, end, busy, &own, error))
            return false;
        const uint64_t most = own > before ? own : before;
        if (most < *best) {
            *best = most;
            start->from[(s + 1) * row + end] = first;
        }
    }
    return true;
}

// False without memory, and where no stages are short enough.
static bool choose_cuts(struct start *start, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const size_t row = (size_t)coupled->layers + 1;
    for (size_t i = 0; i < (coupled->stages + 1) * row; i++)
        start->cost[i] = UINT64_MAX;
    start->cost[0] = 0;
    for (uint32_t s = 0; s < coupled->stages; s++) {
        const uint32_t place = place_of(coupled, s);
        for (uint32_t end = s + 1; end <= coupled->layers; end++)
            if (coupled->can_cut[end] && (end == coupled->layers) == (s + 1 == coupled->stages)
                && search_pins_allow(coupled->request, s + 1, end) && !choose_first(start, s, place, end, error))
                return false;
    }
    if (start->cost[coupled->stages * row + coupled->layers] == UINT64_MAX)
        return false;
    start->state.decision.cuts[coupled->stages] = coupled->layers;
    for (uint32_t s = coupled->stages; s-- > 0;)
        start->state.decision.cuts[s] = start->from[(s + 1) * row + start->state.decision.cuts[s + 1]];
    return true;
}

static uint64_t slab_of(struct coupled *coupled, const struct coupled_state *state, uint32_t s, struct error *error)
{
    struct coupled_stage *of = coupled_stage_of(coupled, &coupled->narrow, s, state->decision.cuts[s],
                                                state->decision.cuts[s + 1], error);
    if (!of)
        return 0;
    if (state->choice[s] == NOT_RECOMPUTED)
        return add_clamped(of->bytes, of->workspace_bytes);
    const struct recompute_choice *choice = &of->front.at[state->choice[s]];
    return add_clamped(choice->bytes, choice->workspace_bytes);
}

static void share_evenly(struct start *start)
{
    const struct placement *placement = start->coupled->placement;
    memset(start->share, 0, placement->stages * sizeof start->share[0]);
    for (uint32_t r = 0; r < placement->ranks; r++) {
        const uint64_t even = start->coupled->capacity[r] / (placement->stage_at[r + 1] - placement->stage_at[r]);
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1]; at++) {
            uint64_t *share = &start->share[placement->held[at]];
            *share = *share == 0 || even < *share ? even : *share;
        }
    }
}

// What the others of a rank left over, but not less than half of an even share.
static bool share_anew(struct start *start, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const struct placement *placement = coupled->placement;
    const struct coupled_state *state = &start->state;
    memset(start->share, 0xff, coupled->stages * sizeof start->share[0]);
    memset(start->company, 0, coupled->stages * sizeof start->company[0]);
    for (uint32_t r = 0; r < placement->ranks; r++) {
        uint64_t slabs = 0, busy = 0;
        const uint32_t from = placement->stage_at[r], to = placement->stage_at[r + 1];
        for (uint32_t at = from; at < to; at++) {
            const uint32_t s = placement->held[at];
            slabs = add_clamped(slabs, slab_of(coupled, state, s, error));
            busy += coupled_busy_ns(coupled, at, state->decision.cuts[s], state->decision.cuts[s + 1],
                                    state->recompute_ns[s]);
        }
        for (uint32_t at = from; at < to; at++) {
            const uint32_t s = placement->held[at];
            const uint64_t others = slabs - slab_of(coupled, state, s, error), even = coupled->capacity[r] / (to - from);
            uint64_t share = others < coupled->capacity[r] ? coupled->capacity[r] - others : 0;
            share = share > even / 2 ? share : even / 2;
            start->share[s] = share < start->share[s] ? share : start->share[s];
            const uint64_t company = busy
                - coupled_busy_ns(coupled, at, state->decision.cuts[s], state->decision.cuts[s + 1],
                                  state->recompute_ns[s]);
            start->company[s] = company > start->company[s] ? company : start->company[s];
        }
    }
    return error->kind == ERROR_NONE;
}

// Stages up to twice as long as they must be without regard to memory; where that does
// not fit, in the last round, of any length.
static bool run_rounds(struct start *start, struct coupled_state *best, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const size_t last = coupled->stages * ((size_t)coupled->layers + 1) + coupled->layers;
    memset(start->share, 0xff, coupled->stages * sizeof start->share[0]);
    start->longest = UINT64_MAX;
    for (int round = 0; round < ROUNDS && (round == 0 || !coupled_must_stop(coupled)); round++) {
        if (round + 1 == ROUNDS && best->most_lacking > 0)
            start->longest = UINT64_MAX;
        if (!choose_cuts(start, error)) {
            if (error->kind != ERROR_NONE)
                return false;
            start->longest = UINT64_MAX;
            continue;
        }
        if (!coupled_complete(coupled, &start->state, 0, coupled->stages, error))
            return false;
        if (!start->has_best || coupled_is_better(&start->state, best))
            coupled_state_copy(best, &start->state, coupled);
        start->has_best = true;
        if (round == 0) {
            start->longest = 2 * start->cost[last];
            share_evenly(start);
        } else if (!share_anew(start, error)) {
            return false;
        }
    }
    return true;
}

// The cuts that the request begins with, where no pin is against them. `is_enough`: they fit as they are, and then
// whoever gave them has looked further than this does.
static bool try_given(struct start *start, struct coupled_state *best, bool *is_enough, struct error *error)
{
    struct coupled *coupled = start->coupled;
    const uint32_t *given = coupled->request->begin;
    for (uint32_t s = 1; given && s < coupled->stages; s++)
        if (!search_pins_allow(coupled->request, s, given[s]))
            return true;
    if (!given)
        return true;
    memcpy(start->state.decision.cuts, given, ((size_t)coupled->stages + 1) * sizeof given[0]);
    if (!coupled_complete(coupled, &start->state, 0, coupled->stages, error))
        return false;
    coupled_state_copy(best, &start->state, coupled);
    start->has_best = true;
    *is_enough = best->most_lacking == 0;
    for (uint32_t s = 0; s < coupled->stages; s++)
        *is_enough = *is_enough && best->recompute_ns[s] == 0;
    return true;
}

bool coupled_start(struct coupled *coupled, struct coupled_state *best, struct error *error)
{
    const size_t cells = ((size_t)coupled->stages + 1) * ((size_t)coupled->layers + 1);
    struct start start = { .coupled = coupled };
    start.share = calloc(coupled->stages, sizeof start.share[0]);
    start.company = calloc(coupled->stages, sizeof start.company[0]);
    start.cost = calloc(cells, sizeof start.cost[0]);
    start.from = calloc(cells, sizeof start.from[0]);
    bool good = start.share && start.company && start.cost && start.from;
    if (!good)
        error_no_memory(error, "a search");
    bool is_enough = false;
    good = good && coupled_state_create(&start.state, coupled, error) && try_given(&start, best, &is_enough, error)
        && (is_enough || run_rounds(&start, best, error));
    free(start.share);
    free(start.company);
    free(start.cost);
    free(start.from);
    coupled_state_clear(&start.state);
    return good;
}
