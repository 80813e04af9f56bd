// The choice of what each rank recomputes, so that its stages fit together.
//
// For each stage the Pareto front is known: the ways to recompute that no other way beats in time, bytes and
// workspace. A byte gets a price in time, the same for all stages of the rank, and each stage takes its cheapest way.
// The least price at which all of them fit is found by bisection. Memory that is left over then goes to what saves
// the most time.
//
//                 fronts                        at 1 ns per byte       at 2 ns per byte
//     stage 0     (0 ns, 9 B)  (4 ns, 6 B)      9 or 10: keeps 9 B     18 or 16: keeps 6 B
//     stage 3     (0 ns, 8 B)  (3 ns, 4 B)      8 or 7: keeps 4 B      16 or 11: keeps 4 B
//
// A stage that has its ranks to itself takes the least time in which it fits, found exactly (stage_price.h).
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/cuts/cut_state.h"
#include "partitioner/search/units.h"

// A choice that is the cheapest at some price, if time is not that of a way to the host. A front's are in the order of
// their times, and their bytes fall ever more slowly.
struct corner {
    uint64_t ns, bytes;
    size_t choice;
};

// The stages of a rank: the front of each, and what is chosen from it.
struct choosing {
    struct chosen {
        const struct stage_price *front;
        uint64_t base_ns;  // of its forward and backward, without what is chosen
        size_t choice;
        struct corner *corners;
        size_t corner_count;
    } *at;
    struct corner *corners;  // of all stages
    uint32_t stages;
    uint64_t capacity;
    uint64_t host_rate;  // of kept activations, there and back; 0: they stay
};

static const struct stage_choice *choice_of(const struct choosing *choosing, uint32_t i)
{
    return &choosing->at[i].front->choices[choosing->at[i].choice];
}

static uint64_t needs(const struct choosing *choosing)
{
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = 0; i < choosing->stages; i++) {
        const struct stage_choice *choice = choice_of(choosing, i);
        bytes = add_clamped(bytes, choice->bytes);
        workspace = choice->workspace_bytes > workspace ? choice->workspace_bytes : workspace;
    }
    return add_clamped(bytes, workspace);
}

// The time of a stage with a choice. It is the longer of two that overlap: the computation, and the way of what is
// kept to the host and back.
static uint64_t time_of(const struct choosing *choosing, uint32_t i, const struct stage_choice *choice)
{
    const uint64_t moved = multiply_clamped(2, choice->away.moved_bytes);
    const uint64_t computed = add_clamped(choosing->at[i].base_ns, choice->forward_ns);
    return choosing->host_rate ? max_u64(computed, transfer_ns(moved, choosing->host_rate, 0)) : computed;
}

// Whether the middle one of three is nowhere cheaper than both others.
static bool is_between(const struct corner *left, const struct corner *middle, const struct corner *right)
{
    return (unsigned __int128)(right->ns - middle->ns) * (left->bytes - middle->bytes)
        <= (unsigned __int128)(middle->ns - left->ns) * (middle->bytes - right->bytes);
}

// Finds the corners of a front. The first of equally cheap choices counts.
static size_t find_corners(const struct chosen *chosen, struct corner *corners)
{
    size_t count = 0;
    for (size_t c = 0; c < chosen->front->count; c++) {
        const struct stage_choice *choice = &chosen->front->choices[c];
        const struct corner corner = { choice->forward_ns, add_clamped(choice->bytes, choice->workspace_bytes), c };
        if (count > 0 && corner.bytes >= corners[count - 1].bytes)
            continue;
        while (count > 1 && is_between(&corners[count - 2], &corners[count - 1], &corner))
            count--;
        if (count == 1 && corners[0].ns == corner.ns)
            count = 0;
        corners[count++] = corner;
    }
    return count;
}

static unsigned __int128 corner_cost(const struct corner *corner, unsigned __int128 price)
{
    return ((unsigned __int128)corner->ns << 24) + price * corner->bytes;
}

// The same as choose_at() for a stage whose choices stay on the device.
static void choose_corner(struct chosen *chosen, unsigned __int128 price)
{
    size_t i = 0;
    while (i + 1 < chosen->corner_count
           && corner_cost(&chosen->corners[i + 1], price) < corner_cost(&chosen->corners[i], price))
        i++;
    chosen->choice = chosen->corners[i].choice;
}

// Each stage takes its cheapest choice if a byte costs price / 2^24 ns.
static void choose_at(struct choosing *choosing, unsigned __int128 price)
{
    for (uint32_t i = 0; i < choosing->stages; i++) {
        if (choosing->corners) {
            choose_corner(&choosing->at[i], price);
            continue;
        }
        const struct stage_price *front = choosing->at[i].front;
        unsigned __int128 least = ~(unsigned __int128)0;
        for (size_t c = 0; c < front->count; c++) {
            const struct stage_choice *choice = &front->choices[c];
            const unsigned __int128 cost =
                ((unsigned __int128)time_of(choosing, i, choice) << 24)
                + price * add_clamped(choice->bytes, choice->workspace_bytes);
            if (cost < least) {
                least = cost;
                choosing->at[i].choice = c;
            }
        }
    }
}

// Finds the least price, to a sixteenth, at which all stages fit; the highest price if they fit at none.
static void choose_by_price(struct choosing *choosing)
{
    enum { HIGHEST = 63, PARTS = 16 };
    unsigned low = 0, high = HIGHEST * PARTS;  // the price is 2^(at / PARTS), linear between the powers
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

// Changes the one choice that saves the most time and still fits. Returns whether there is one.
static bool use_what_is_left(struct choosing *choosing)
{
    uint64_t most = 0;
    uint32_t stage = 0;
    size_t to = 0;
    for (uint32_t i = 0; i < choosing->stages; i++) {
        const size_t chosen = choosing->at[i].choice;
        const uint64_t time = time_of(choosing, i, choice_of(choosing, i));
        // Choices are in the order of their recomputation time. If nothing is moved, those behind the chosen one save
        // nothing.
        const size_t count = choosing->host_rate ? choosing->at[i].front->count : chosen;
        for (size_t c = 0; c < count; c++) {
            const uint64_t choice_time = time_of(choosing, i, &choosing->at[i].front->choices[c]);
            const uint64_t saved = choice_time < time ? time - choice_time : 0;
            choosing->at[i].choice = c;
            if (saved > most && needs(choosing) <= choosing->capacity) {
                most = saved;
                stage = i;
                to = c;
            }
        }
        choosing->at[i].choice = chosen;
    }
    if (most > 0)
        choosing->at[stage].choice = to;
    return most > 0;
}

static bool see_corners(struct choosing *choosing, struct error *error)
{
    size_t count = 0;
    for (uint32_t i = 0; i < choosing->stages; i++)
        count += choosing->at[i].front->count;
    choosing->corners = malloc((count + 1) * sizeof choosing->corners[0]);
    if (!choosing->corners)
        return error_no_memory(error, "a search");
    struct corner *next = choosing->corners;
    for (uint32_t i = 0; i < choosing->stages; i++) {
        choosing->at[i].corners = next;
        choosing->at[i].corner_count = find_corners(&choosing->at[i], next);
        next += choosing->at[i].corner_count;
    }
    return true;
}

static bool begin_choosing(struct cut_problem *problem, struct choosing *choosing, const struct cut_state *state,
                           uint32_t rank, struct error *error)
{
    const uint32_t *held = &problem->schedule.placement->held[problem->schedule.placement->stage_at[rank]];
    const uint32_t stages =
        problem->schedule.placement->stage_at[rank + 1] - problem->schedule.placement->stage_at[rank];
    *choosing = (struct choosing){ .stages = stages, .capacity = problem->devices.capacity[rank] };
    if (problem->request->storage.activations_on_host)
        choosing->host_rate = problem->devices.places[held[0]].host_bytes_per_second;
    choosing->at = calloc(stages, sizeof choosing->at[0]);
    if (!choosing->at)
        return error_no_memory(error, "a search");
    for (uint32_t i = 0; i < stages; i++) {
        const uint32_t *cuts = &state->cuts[held[i]];
        struct stage_price *front = stage_price_choices(problem, &problem->narrow, held[i], cuts[0], cuts[1], error);
        if (!front || (problem->insists && !stage_price_insist(problem, front, error)))
            return false;
        choosing->at[i].front = front;
        choosing->at[i].base_ns = cut_sum(problem, held[i], SUM_FORWARD, cuts[0], cuts[1])
                                + cut_sum(problem, held[i], SUM_BACKWARD, cuts[0], cuts[1]);
        problem->context->work += choosing->at[i].front->count / 32;
    }
    return choosing->host_rate > 0 || see_corners(choosing, error);
}

// The recomputation of a stage that makes no choice. If a pattern says what is recomputed, it is that; else there is
// none.
static uint64_t usual_again_ns(const struct cut_problem *problem, uint32_t stage, const struct cut_state *state)
{
    const struct search_units *units = problem->request->units;
    const struct intervals *intervals = problem->views[problem->view_of[stage]].intervals;
    return !units ? 0 : units_recompute_ns(units, intervals, places_size(problem->places, state->cuts[stage]),
                                           places_size(problem->places, state->cuts[stage + 1]));
}

bool cut_state_keep(struct cut_problem *problem, struct cut_state *state, struct stage_table *table, uint32_t rank,
                    bool *fits, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        const uint32_t s = placement->held[i], *cuts = &state->cuts[s];
        state->of[s].away = (struct stage_away){ 0 };
        if (problem->schedule.is_alone && stage_price_surely_fits(problem, s, cuts[0], cuts[1]))
            continue;
        const struct stage_price *price = stage_price_of(problem, table, s, cuts[0], cuts[1], error);
        if (!price)
            return false;
        state->of[s].away = price->away;
        bytes = add_clamped(bytes, price->bytes);
        workspace = max_u64(workspace, price->workspace_bytes);
    }
    *fits = add_clamped(bytes, workspace) <= problem->devices.capacity[rank];
    for (uint32_t i = placement->stage_at[rank]; *fits && i < placement->stage_at[rank + 1]; i++) {
        state->of[placement->held[i]].choice = NOT_RECOMPUTED;
        state->of[placement->held[i]].recompute_ns = usual_again_ns(problem, placement->held[i], state);
    }
    return true;
}

// A stage that takes more than any device could hold (stage_price.c) has no choices.
static bool all_have_choices(const struct choosing *choosing)
{
    uint32_t with = 0;
    for (uint32_t i = 0; i < choosing->stages; i++)
        with += choosing->at[i].front->count > 0;
    return with == choosing->stages;
}

// Chooses at the best price. Returns how many bytes the stages then lack.
static uint64_t choose_together(struct choosing *choosing)
{
    choose_by_price(choosing);
    while (needs(choosing) <= choosing->capacity && use_what_is_left(choosing))
        continue;
    const uint64_t all = needs(choosing);
    return all > choosing->capacity ? all - choosing->capacity : 0;
}

bool cut_state_choose(struct cut_problem *problem, struct cut_state *state, uint32_t rank, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    bool fits;
    if (!cut_state_keep(problem, state, &problem->narrow, rank, &fits, error))
        return false;
    state->lacks_bytes[rank] = 0;
    // Recomputing something may be quicker than moving it.
    if (fits && !problem->request->storage.activations_on_host)
        return true;
    struct choosing choosing;
    const bool good = begin_choosing(problem, &choosing, state, rank, error);
    const bool has_all = good && all_have_choices(&choosing);
    if (good)
        state->lacks_bytes[rank] = has_all ? choose_together(&choosing) : UINT64_MAX - choosing.capacity;
    for (uint32_t i = 0; good && i < choosing.stages; i++) {
        struct stage_decision *decision = &state->of[placement->held[placement->stage_at[rank] + i]];
        decision->choice = has_all ? choosing.at[i].choice : NOT_RECOMPUTED;
        decision->recompute_ns = has_all ? choice_of(&choosing, i)->forward_ns : 0;
        decision->away = has_all ? choice_of(&choosing, i)->away : (struct stage_away){ 0 };
    }
    free(choosing.corners);
    free(choosing.at);
    return good;
}
