// What each rank recomputes so that its stages fit together.
//
// Of each stage the front is known: ways to recompute that no other is better than in
// time, bytes and workspace. A byte gets a price in time, the same for all stages of
// the rank, and each stage takes what is cheapest for it; the least price at which all
// of them fit is found by halving. What is left over then goes to whatever saves the
// most time.
//
//                 fronts                        at 1 ns per byte       at 2 ns per byte
//     stage 0     (0 ns, 9 B)  (4 ns, 6 B)      9 or 10: keeps 9 B     18 or 16: keeps 6 B
//     stage 3     (0 ns, 8 B)  (3 ns, 4 B)      8 or 7: keeps 4 B      16 or 11: keeps 4 B
//
// A stage that has its ranks to itself takes the least time in which it fits, found exactly.
//
// A rank that spares one of its stages takes that one's time eight times as hard.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"

enum {
    NARROW_LABELS = 12,  // at a position, while searching
    WHOLE_LABELS = 600,  // while proving
    FEW_LAYERS = 10,     // whose ways are so few that all of them can be listed
    FEW_LABELS = 4000,
    ALONE_LABELS = 2000, // of the least time of a stage that is alone on its ranks
    SPARED = 8,
};

#define WITHOUT_CAPACITY (UINT64_MAX / 4)

// --- stages ---------------------------------------------------------------------------

struct coupled_stage *coupled_stage_of(struct coupled *coupled, struct stage_table *table, uint32_t stage,
                                       uint32_t first, uint32_t end, struct error *error)
{
    struct coupled_stage *made = stage_table_get(table, stage, first, end);
    if (made)
        return made;
    made = calloc(1, sizeof *made);
    if (!made || !stage_table_add(table, stage, first, end, made)) {
        free(made);
        error_no_memory(error, "a search");
        return NULL;
    }
    const struct stage_bytes whole = interval_bytes(coupled->intervals[stage], first, end);
    const struct stage_bytes bytes = stage_bytes_of_split(whole, coupled->order->splits);
    *made = (struct coupled_stage){ .stage = stage, .first = first, .end = end, .workspace_bytes = bytes.transient };
    made->bytes = stage_memory_of(&bytes, &coupled->slots[stage]).peak_bytes - bytes.transient;
    made->away = stage_away_of(&whole, coupled->order->splits, &coupled->slots[stage]);
    coupled->work += 1;
    return made;
}

static uint64_t capacity_of(const struct coupled *coupled, uint32_t stage)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t copy = 0; copy < placement_copies(coupled->placement, stage); copy++) {
        const uint64_t bytes = coupled->capacity[placement_rank(coupled->placement, stage, copy)];
        least = bytes < least ? bytes : least;
    }
    return least;
}

// Whether no rank of the stage has another one, to which bytes would be of use.
static bool is_alone(const struct coupled *coupled, uint32_t stage)
{
    for (uint32_t copy = 0; copy < placement_copies(coupled->placement, stage); copy++) {
        const uint32_t *at = &coupled->placement->stage_at[placement_rank(coupled->placement, stage, copy)];
        if (at[1] - at[0] > 1)
            return false;
    }
    return !coupled->request->holding.activations_on_host;
}

// Without a capacity it is about the bytes.
static bool find_front(struct coupled *coupled, struct coupled_stage *of, uint64_t capacity, bool whole,
                       struct error *error)
{
    const bool is_least = capacity < WITHOUT_CAPACITY && is_alone(coupled, of->stage)
                       && (coupled->is_monotone || !whole);
    const enum recompute_wanted wanted = is_least                          ? RECOMPUTE_LEAST
                                       : whole && !coupled->is_monotone ? RECOMPUTE_EVERY_FRONT : RECOMPUTE_FRONT;
    const size_t most_whole = of->end - of->first <= FEW_LAYERS ? FEW_LABELS : WHOLE_LABELS;
    const size_t most_labels = is_least ? ALONE_LABELS : whole ? most_whole : NARROW_LABELS;
    uint64_t made = 0;
    recompute_list_clear(&of->front);
    const bool good = recompute_search(coupled->intervals[of->stage], of->first, of->end, &coupled->slots[of->stage],
                                       capacity, wanted, most_labels, &made, &of->front, error);
    coupled->work += 1 + made / 8;
    return good;
}

struct coupled_stage *coupled_front(struct coupled *coupled, struct stage_table *table, uint32_t stage,
                                    uint32_t first, uint32_t end, struct error *error)
{
    struct coupled_stage *of = coupled_stage_of(coupled, table, stage, first, end, error);
    if (!of || of->has_front)
        return of;
    const bool whole = table == &coupled->whole;
    if (!find_front(coupled, of, capacity_of(coupled, stage), whole, error))
        return NULL;
    of->has_front = true;
    of->fits = of->front.count > 0;
    // What does not fit lacks something, and how much is worth knowing while searching.
    if (!of->fits && !whole && !find_front(coupled, of, WITHOUT_CAPACITY, false, error))
        return NULL;
    return of;
}

// --- ranks ----------------------------------------------------------------------------

// The stages of a rank, their fronts, and what is chosen of each.
struct choosing {
    struct coupled_stage **of;
    size_t *choice;
    uint32_t stages, spared;
    uint64_t capacity;
    uint64_t host_rate;  // of what is kept, there and back; 0: it stays
};

static const struct recompute_choice *choice_of(const struct choosing *choosing, uint32_t i)
{
    return &choosing->of[i]->front.at[choosing->choice[i]];
}

static uint64_t needs(const struct choosing *choosing)
{
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = 0; i < choosing->stages; i++) {
        const struct recompute_choice *choice = choice_of(choosing, i);
        bytes = add_clamped(bytes, choice->bytes);
        workspace = choice->workspace_bytes > workspace ? choice->workspace_bytes : workspace;
    }
    return add_clamped(bytes, workspace);
}

static uint64_t hardness(const struct choosing *choosing, uint32_t i)
{
    return choosing->spared == i ? SPARED : 1;
}

// What a choice takes of a stage's time: the recomputation, and the way of the rest to the host and back.
static uint64_t time_of(const struct choosing *choosing, const struct recompute_choice *choice)
{
    const uint64_t moved = multiply_clamped(2, choice->away.moved_bytes);
    return choice->forward_ns + (choosing->host_rate ? transfer_ns(moved, choosing->host_rate, 0) : 0);
}

// Each stage takes what is cheapest when a byte costs price / 2^24 ns.
static void choose_at(struct choosing *choosing, unsigned __int128 price)
{
    for (uint32_t i = 0; i < choosing->stages; i++) {
        const struct recompute_list *front = &choosing->of[i]->front;
        unsigned __int128 least = ~(unsigned __int128)0;
        for (size_t c = 0; c < front->count; c++) {
            const struct recompute_choice *choice = &front->at[c];
            const unsigned __int128 cost =
                ((unsigned __int128)time_of(choosing, choice) * hardness(choosing, i) << 24)
                + price * add_clamped(choice->bytes, choice->workspace_bytes);
            if (cost < least) {
                least = cost;
                choosing->choice[i] = c;
            }
        }
    }
}

// The least price, to a sixteenth, at which all fit; the highest if none do.
static void choose_by_price(struct choosing *choosing)
{
    enum { HIGHEST = 63, PARTS = 16 };
    unsigned low = 0, high = HIGHEST * PARTS;  // 2^(at / PARTS), with straight lines between the powers
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        const unsigned __int128 power = (unsigned __int128)1 << (middle / PARTS);
        choose_at(choosing, power + power * (middle % PARTS) / PARTS);
        if (needs(choosing) <= choosing->capacity)
            high = middle;
        else
            low = middle + 1;
    }
    const unsigned __int128 power = (unsigned __int128)1 << (low / PARTS);
    choose_at(choosing, power + power * (low % PARTS) / PARTS);
}

// Changes the one choice that saves the most time and still fits; whether there is one.
static bool use_what_is_left(struct choosing *choosing)
{
    uint64_t most = 0;
    uint32_t stage = 0;
    size_t to = 0;
    for (uint32_t i = 0; i < choosing->stages; i++) {
        const size_t chosen = choosing->choice[i];
        const uint64_t time = time_of(choosing, choice_of(choosing, i));
        // In order of the time of recomputation alone: where nothing is moved, what is behind saves nothing.
        const size_t count = choosing->host_rate ? choosing->of[i]->front.count : chosen;
        for (size_t c = 0; c < count; c++) {
            const uint64_t own = time_of(choosing, &choosing->of[i]->front.at[c]);
            const uint64_t saved = own < time ? (time - own) * hardness(choosing, i) : 0;
            choosing->choice[i] = c;
            if (saved > most && needs(choosing) <= choosing->capacity) {
                most = saved;
                stage = i;
                to = c;
            }
        }
        choosing->choice[i] = chosen;
    }
    if (most > 0)
        choosing->choice[stage] = to;
    return most > 0;
}

static bool begin_choosing(struct coupled *coupled, struct choosing *choosing, const struct coupled_state *state,
                           uint32_t rank, struct error *error)
{
    const uint32_t *held = &coupled->placement->held[coupled->placement->stage_at[rank]];
    const uint32_t stages = coupled->placement->stage_at[rank + 1] - coupled->placement->stage_at[rank];
    *choosing = (struct choosing){ .stages = stages, .spared = state->decision.spared[rank],
                                   .capacity = coupled->capacity[rank] };
    if (coupled->request->holding.activations_on_host)
        choosing->host_rate = coupled->places[held[0]].host_bytes_per_second;
    choosing->of = calloc(stages, sizeof choosing->of[0]);
    choosing->choice = calloc(stages, sizeof choosing->choice[0]);
    if (!choosing->of || !choosing->choice)
        return error_no_memory(error, "a search");
    for (uint32_t i = 0; i < stages; i++) {
        const uint32_t *cuts = &state->decision.cuts[held[i]];
        choosing->of[i] = coupled_front(coupled, &coupled->narrow, held[i], cuts[0], cuts[1], error);
        if (!choosing->of[i])
            return false;
        coupled->work += choosing->of[i]->front.count / 4;
    }
    return true;
}

// Whether the stages of the rank fit as they are.
static bool fits_as_it_is(struct coupled *coupled, struct coupled_state *state, uint32_t rank, bool *fits,
                          struct error *error)
{
    const struct placement *placement = coupled->placement;
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at];
        const struct coupled_stage *of = coupled_stage_of(coupled, &coupled->narrow, s, state->decision.cuts[s],
                                                          state->decision.cuts[s + 1], error);
        if (!of)
            return false;
        state->away[s] = of->away;
        bytes = add_clamped(bytes, of->bytes);
        workspace = of->workspace_bytes > workspace ? of->workspace_bytes : workspace;
    }
    *fits = add_clamped(bytes, workspace) <= coupled->capacity[rank];
    return true;
}

bool coupled_choose(struct coupled *coupled, struct coupled_state *state, uint32_t rank, struct error *error)
{
    const struct placement *placement = coupled->placement;
    bool fits;
    if (coupled->leader[rank] != rank)
        return true;
    if (!fits_as_it_is(coupled, state, rank, &fits, error))
        return false;
    fits &= !coupled->request->holding.activations_on_host;  // to run something again may be quicker than to move it
    state->lacks_bytes[rank] = 0;
    for (uint32_t at = placement->stage_at[rank]; fits && at < placement->stage_at[rank + 1]; at++) {
        state->choice[placement->held[at]] = NOT_RECOMPUTED;
        state->recompute_ns[placement->held[at]] = 0;
    }
    if (fits)
        return true;
    struct choosing choosing;
    const bool good = begin_choosing(coupled, &choosing, state, rank, error);
    if (good) {
        choose_by_price(&choosing);
        while (needs(&choosing) <= choosing.capacity && use_what_is_left(&choosing))
            continue;
        const uint64_t all = needs(&choosing);
        state->lacks_bytes[rank] = all > choosing.capacity ? all - choosing.capacity : 0;
    }
    for (uint32_t i = 0; good && i < choosing.stages; i++) {
        const uint32_t s = placement->held[placement->stage_at[rank] + i];
        state->choice[s] = choosing.choice[i];
        state->recompute_ns[s] = choice_of(&choosing, i)->forward_ns;
        state->away[s] = choice_of(&choosing, i)->away;
    }
    free(choosing.of);
    free(choosing.choice);
    return good;
}
