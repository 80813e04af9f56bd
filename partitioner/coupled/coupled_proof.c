// All decisions, where they are few: cut by cut from the first stage on, then what each
// stage recomputes. A branch is left where its bound is not below the best:
//
//     the simulated time of what is decided, as if all else took no time and no message
//     waited for a link
//     the work of the ranks that have undecided stages, on average
//
// Where every stage fits as it is and a longer stage never makes a shorter iteration,
// nothing else needs to be tried for these cuts.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/search/search_request.h"
#include "schedules/simulate.h"

struct proof {
    struct coupled *coupled;
    struct coupled_state *best;
    struct coupled_state state;
    struct cost_row *rows;      // of what is decided
    struct coupled_stage **fronts;
    uint64_t *bytes, *workspace;  // per rank, of what is decided
    bool complete;              // nothing was left out
    struct error *error;
    bool failed;
};

// What is not complete proves nothing, however long it goes on.
static bool must_stop(struct proof *proof)
{
    return proof->failed || !proof->complete || coupled_must_stop(proof->coupled);
}

static uint64_t best_ns(const struct proof *proof)
{
    const uint64_t below = proof->coupled->request->below_ns ? proof->coupled->request->below_ns : UINT64_MAX;
    return proof->best->most_lacking == 0 && proof->best->value_ns < below ? proof->best->value_ns : below;
}

static bool can_be_better(struct proof *proof)
{
    struct coupled *coupled = proof->coupled;
    if (!coupled->bound_simulator)
        return true;
    coupled->work += 1 + coupled->actions / 32;
    return simulator_iteration_ns(coupled->bound_simulator, proof->rows) < best_ns(proof);
}

static void note_if_better(struct proof *proof)
{
    struct coupled_state *state = &proof->state;
    if (coupled_host_lacks(proof->coupled, state) > 0)
        return;
    state->value_ns = coupled_time(proof->coupled, state);
    if (state->value_ns < best_ns(proof)) {
        state->is_whole = true;
        coupled_state_copy(proof->best, state, proof->coupled);
    }
}

// --- what is recomputed ---------------------------------------------------------------

// Adds a stage to the ranks that hold it, or takes it away; whether they have room.
static bool place(struct proof *proof, uint32_t s, uint64_t bytes, uint64_t workspace, uint64_t *before)
{
    const struct placement *placement = proof->coupled->placement;
    bool fits = true;
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t r = placement_rank(placement, s, copy);
        before[2 * copy] = proof->bytes[r];
        before[2 * copy + 1] = proof->workspace[r];
        proof->bytes[r] = add_clamped(proof->bytes[r], bytes);
        proof->workspace[r] = workspace > proof->workspace[r] ? workspace : proof->workspace[r];
        fits &= add_clamped(proof->bytes[r], proof->workspace[r])
             <= proof->coupled->capacity[r];
    }
    return fits;
}

static void take_back(struct proof *proof, uint32_t s, const uint64_t *before)
{
    const struct placement *placement = proof->coupled->placement;
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t r = placement_rank(placement, s, copy);
        proof->bytes[r] = before[2 * copy];
        proof->workspace[r] = before[2 * copy + 1];
    }
}

static void try_choices(struct proof *proof, uint32_t s)
{
    struct coupled *coupled = proof->coupled;
    if (s == coupled->stages) {
        note_if_better(proof);
        return;
    }
    const struct coupled_stage *of = proof->fronts[s];
    const uint32_t *cuts = proof->state.decision.cuts;
    uint64_t *before = calloc(2 * (size_t)placement_copies(coupled->placement, s), sizeof before[0]);
    if (!before) {
        proof->failed = true;
        error_no_memory(proof->error, "a search");
        return;
    }
    for (size_t i = 0; of->fits && i < of->front.count && !must_stop(proof); i++) {
        const struct recompute_choice *choice = &of->front.at[i];
        // One bound holds for all choices of a time, and what takes longer has no lower one.
        const bool is_new = i == 0 || choice->forward_ns != of->front.at[i - 1].forward_ns;
        proof->rows[s] = coupled_row(coupled, s, cuts[s], cuts[s + 1], choice->forward_ns);
        if (is_new && choice->forward_ns > 0 && !can_be_better(proof))
            break;
        proof->state.choice[s] = i;
        proof->state.recompute_ns[s] = choice->forward_ns;
        proof->state.away[s] = choice->away;
        if (place(proof, s, choice->bytes, choice->workspace_bytes, before))
            try_choices(proof, s + 1);
        take_back(proof, s, before);
    }
    free(before);
    proof->rows[s] = coupled_row(coupled, s, cuts[s], cuts[s + 1], 0);
}

static bool fits_as_it_is(struct proof *proof)
{
    struct coupled *coupled = proof->coupled;
    const uint32_t *cuts = proof->state.decision.cuts;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        uint64_t bytes = 0, workspace = 0;
        for (uint32_t at = coupled->placement->stage_at[r]; at < coupled->placement->stage_at[r + 1]; at++) {
            const uint32_t s = coupled->placement->held[at];
            const struct coupled_stage *of =
                coupled_stage_of(coupled, &coupled->whole, s, cuts[s], cuts[s + 1], proof->error);
            proof->failed |= !of;
            proof->state.away[s] = of ? of->away : (struct stage_away){ 0 };
            bytes = of ? add_clamped(bytes, of->bytes) : UINT64_MAX;
            workspace = of && of->workspace_bytes > workspace ? of->workspace_bytes : workspace;
        }
        if (add_clamped(bytes, workspace) > coupled->capacity[r])
            return false;
    }
    return true;
}

static void try_cuts_chosen(struct proof *proof)
{
    struct coupled *coupled = proof->coupled;
    const uint32_t *cuts = proof->state.decision.cuts;
    // What is recomputed need not go to the host: a stage that spends more on it can be the quicker one.
    const bool moves = coupled->request->holding.activations_on_host;
    if (coupled->is_monotone && !moves && fits_as_it_is(proof)) {
        for (uint32_t s = 0; s < coupled->stages; s++) {
            proof->state.choice[s] = NOT_RECOMPUTED;
            proof->state.recompute_ns[s] = 0;
        }
        note_if_better(proof);
        return;
    }
    for (uint32_t s = 0; s < coupled->stages && !proof->failed && proof->complete; s++) {
        proof->fronts[s] = coupled_front(coupled, &coupled->whole, s, cuts[s], cuts[s + 1], proof->error);
        proof->failed |= !proof->fronts[s];
        proof->complete &= proof->fronts[s] && proof->fronts[s]->front.complete;
    }
    if (!proof->failed && proof->complete)
        try_choices(proof, 0);
}

// --- cuts -----------------------------------------------------------------------------

// The work of all ranks with a stage from `s` on, which begins at layer `first`, on average.
static uint64_t average_work(const struct proof *proof, uint32_t s, uint32_t first)
{
    const struct coupled *coupled = proof->coupled;
    const struct placement *placement = coupled->placement;
    unsigned __int128 sum = 0;
    unsigned __int128 least[4], rest = 0;
    uint32_t open = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        if (placement->held[placement->stage_at[r + 1] - 1] < s)
            continue;
        open++;
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1] && placement->held[at] < s; at++)
            sum += coupled_busy_ns(coupled, at, proof->state.decision.cuts[placement->held[at]],
                                   proof->state.decision.cuts[placement->held[at] + 1], 0);
    }
    for (uint32_t t = s; t < coupled->stages; t++) {
        uint64_t own[4] = { 0 };
        for (uint32_t at = 0; at < placement->stage_at[coupled->ranks]; at++) {
            const struct coupled_work *work = &coupled->work_of[at];
            if (work->stage != t)
                continue;
            own[0] += work->forwards;
            own[1] += work->backwards;
            own[2] += work->inputs;
            own[3] += work->weights;
        }
        // In millionths, on the devices of the stage.
        for (unsigned i = 0; i < 4; i++) {
            const unsigned __int128 times = (unsigned __int128)own[i] * 1000000000 / coupled->speed[t];
            least[i] = t == s || times < least[i] ? times : least[i];
        }
    }
    for (unsigned i = 0; i < 4; i++)
        rest += least[i] * (coupled->least[i][coupled->layers] - coupled->least[i][first]);
    return (uint64_t)((sum + rest / 1000000) / open);
}

static void try_cuts(struct proof *proof, uint32_t s)
{
    struct coupled *coupled = proof->coupled;
    uint32_t *cuts = proof->state.decision.cuts;
    if (s == coupled->stages) {
        try_cuts_chosen(proof);
        return;
    }
    if (s > 0 && coupled->flushes && average_work(proof, s, cuts[s]) >= best_ns(proof))
        return;
    for (uint32_t end = cuts[s] + 1; end <= coupled->layers && !must_stop(proof); end++) {
        if (!coupled->can_cut[end] || (end == coupled->layers) != (s + 1 == coupled->stages)
            || !search_pins_allow(coupled->request, s + 1, end))
            continue;
        cuts[s + 1] = end;
        proof->rows[s] = coupled_row(coupled, s, cuts[s], end, 0);
        if (can_be_better(proof))
            try_cuts(proof, s + 1);
    }
    proof->rows[s] = (struct cost_row){ 0 };
}

// How many ways there are to cut.
static double count_cuts(const struct coupled *coupled)
{
    uint32_t places = 0;
    for (uint32_t l = 1; l < coupled->layers; l++)
        places += coupled->can_cut[l];
    double count = 1;
    for (uint32_t i = 0; i + 1 < coupled->stages; i++)
        count = count * (places - i) / (i + 1);
    return count;
}

// What trying all of them takes, if bounds leave none out.
static double count_work_of_all(const struct coupled *coupled)
{
    return count_cuts(coupled) * (double)(1 + coupled->actions / 32);
}

bool coupled_is_small(const struct coupled *coupled)
{
    enum { SMALL = 4000 };
    return count_work_of_all(coupled) < SMALL;
}

bool coupled_prove(struct coupled *coupled, struct coupled_state *best, bool *proved, struct error *error)
{
    *proved = false;
    // Bounds leave a small part of what there is; beyond that it is not begun.
    enum { LEFT_OUT = 64 };
    const double room = (double)(coupled->budget > coupled->work ? coupled->budget - coupled->work : 0);
    if (coupled_must_stop(coupled) || count_work_of_all(coupled) > LEFT_OUT * room)
        return true;
    struct proof proof = { .coupled = coupled, .best = best, .complete = true, .error = error };
    proof.rows = calloc(coupled->stages, sizeof proof.rows[0]);
    proof.fronts = calloc(coupled->stages, sizeof proof.fronts[0]);
    proof.bytes = calloc(coupled->ranks, sizeof proof.bytes[0]);
    proof.workspace = calloc(coupled->ranks, sizeof proof.workspace[0]);
    bool good = proof.rows && proof.fronts && proof.bytes && proof.workspace;
    if (!good)
        error_no_memory(error, "a search");
    good = good && coupled_state_create(&proof.state, coupled, error);
    if (good) {
        try_cuts(&proof, 0);
        good = !proof.failed;
        *proved = good && proof.complete && !coupled_must_stop(coupled);
    }
    free(proof.rows);
    free(proof.fronts);
    free(proof.bytes);
    free(proof.workspace);
    coupled_state_clear(&proof.state);
    return good;
}
