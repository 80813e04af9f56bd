#include "schedules/generators/greedy.h"

#include <stdlib.h>

#define NEVER UINT32_MAX

// A stage on one route. Its micro-batches pass in their order.
struct lane {
    uint32_t stage, route;
    uint32_t forward, backward;  // the next micro-batch
    uint32_t ahead;
};

struct worker {
    uint32_t free;  // the slot from which it is free
    uint32_t kept;
    uint32_t owed;  // I's without their W so far
    size_t weights; // position in its list before which every I has its W
};

struct greedy {
    struct schedule *schedule;
    const struct greedy_rules *rules;
    struct lane *lanes;       // sorted by rank
    size_t *first;            // per rank: its first lane
    struct worker *workers;   // per rank
    uint32_t *forward_ends;   // per stage and micro-batch: the slot after its F
    uint32_t *backward_ends;
};

static uint32_t next_on_route(const struct schedule *schedule, uint32_t route, uint32_t micro_batch)
{
    while (micro_batch < schedule->micro_batches && schedule->route_of[micro_batch] != route)
        micro_batch++;
    return micro_batch;
}

static void place_lanes(struct greedy *greedy)
{
    const struct schedule *schedule = greedy->schedule;
    size_t count = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        greedy->first[rank] = count;
        for (uint32_t index = 0; index < schedule->route_count * schedule->stages; index++) {
            if (schedule->routes[index] != rank)
                continue;
            const uint32_t route = index / schedule->stages, start = next_on_route(schedule, route, 0);
            greedy->lanes[count++] = (struct lane){ index % schedule->stages, route, start, start, 0 };
        }
    }
    greedy->first[schedule->ranks] = count;
}

static size_t unit(const struct greedy *greedy, uint32_t stage, uint32_t micro_batch)
{
    return (size_t)stage * greedy->schedule->micro_batches + micro_batch;
}

static bool forward_is_ready(const struct greedy *greedy, const struct lane *lane, uint32_t slot)
{
    return lane->forward < greedy->schedule->micro_batches
        && (lane->stage == 0 || greedy->forward_ends[unit(greedy, lane->stage - 1, lane->forward)] <= slot);
}

static bool backward_is_ready(const struct greedy *greedy, const struct lane *lane, uint32_t slot)
{
    return lane->backward < greedy->schedule->micro_batches
        && greedy->forward_ends[unit(greedy, lane->stage, lane->backward)] <= slot
        && (lane->stage + 1 == greedy->schedule->stages
            || greedy->backward_ends[unit(greedy, lane->stage + 1, lane->backward)] <= slot);
}

struct choice {
    struct lane *lane;  // NULL: a W
    enum action_kind kind;
    int64_t turn;
};

static void consider(const struct greedy *greedy, struct choice *choice, struct lane *lane, enum action_kind kind)
{
    const struct action action = { .stage = (uint16_t)lane->stage, .kind = (uint8_t)kind,
                                   .micro_batch = kind == ACTION_F ? lane->forward : lane->backward };
    const int64_t turn = greedy->rules->turn(greedy->rules->state, action);
    if (turn < choice->turn)
        *choice = (struct choice){ lane, kind, turn };
}

// The rank's next action. The turn stays INT64_MAX if that is a W which is not needed for room, or if there is none.
static struct choice choose(const struct greedy *greedy, uint32_t rank, uint32_t slot, bool is_limited)
{
    const struct greedy_rules *rules = greedy->rules;
    const struct worker *worker = &greedy->workers[rank];
    const bool has_room = !is_limited || worker->kept < rules->most_kept;
    struct choice choice = { .kind = ACTION_W, .turn = INT64_MAX };
    for (size_t i = greedy->first[rank]; i < greedy->first[rank + 1]; i++) {
        struct lane *lane = &greedy->lanes[i];
        const bool may_begin = !is_limited || lane->ahead < rules->most_ahead(rules->state, lane->stage);
        if (may_begin && (has_room || worker->owed > 0) && forward_is_ready(greedy, lane, slot))
            consider(greedy, &choice, lane, ACTION_F);
        if (backward_is_ready(greedy, lane, slot))
            consider(greedy, &choice, lane, rules->splits_backward ? ACTION_I : ACTION_B);
    }
    if (choice.kind == ACTION_F && !has_room)
        choice.kind = ACTION_W;
    return choice;
}

static struct action begin_forward(struct greedy *greedy, struct worker *worker, struct lane *lane)
{
    const struct action action = { .stage = (uint16_t)lane->stage, .kind = ACTION_F, .micro_batch = lane->forward };
    greedy->forward_ends[unit(greedy, lane->stage, lane->forward)] = worker->free;
    lane->forward = next_on_route(greedy->schedule, lane->route, lane->forward + 1);
    lane->ahead++;
    worker->kept++;
    return action;
}

static struct action begin_backward(struct greedy *greedy, struct worker *worker, struct lane *lane,
                                    enum action_kind kind)
{
    const struct action action = { .stage = (uint16_t)lane->stage, .kind = (uint8_t)kind,
                                   .micro_batch = lane->backward };
    greedy->backward_ends[unit(greedy, lane->stage, lane->backward)] = worker->free;
    lane->backward = next_on_route(greedy->schedule, lane->route, lane->backward + 1);
    lane->ahead--;
    worker->kept -= kind == ACTION_B;
    worker->owed += kind == ACTION_I;
    return action;
}

// The W of the first I that does not have one.
static struct action begin_weights(struct worker *worker, const struct action_list *list)
{
    while (list->at[worker->weights].kind != ACTION_I)
        worker->weights++;
    struct action action = list->at[worker->weights++];
    action.kind = ACTION_W;
    worker->kept--;
    worker->owed--;
    return action;
}

static bool begin(struct greedy *greedy, uint32_t rank, struct choice choice, uint32_t slot, struct error *error)
{
    struct worker *worker = &greedy->workers[rank];
    worker->free = slot + (choice.kind == ACTION_B ? 2 : 1);
    const struct action action = choice.kind == ACTION_F ? begin_forward(greedy, worker, choice.lane)
                               : choice.kind == ACTION_W ? begin_weights(worker, &greedy->schedule->lists[rank])
                                                         : begin_backward(greedy, worker, choice.lane, choice.kind);
    return schedule_add(greedy->schedule, rank, action, error);
}

// An action that begins here ends in a later slot, so no rank sees what another has just begun.
static bool run_slot(struct greedy *greedy, uint32_t slot, bool is_limited, size_t *begun, bool *is_busy,
                     struct error *error)
{
    *begun = 0;
    *is_busy = false;
    for (uint32_t rank = 0; rank < greedy->schedule->ranks; rank++) {
        if (greedy->workers[rank].free > slot) {
            *is_busy = true;
            continue;
        }
        const struct choice choice = choose(greedy, rank, slot, is_limited);
        if (!choice.lane && greedy->workers[rank].owed == 0)
            continue;
        if (!begin(greedy, rank, choice, slot, error))
            return false;
        if (++*begun == 1 && !is_limited)
            return true;
    }
    return true;
}

static bool run(struct greedy *greedy, struct error *error)
{
    const struct schedule *schedule = greedy->schedule;
    const size_t actions = greedy->rules->splits_backward ? 3 : 2;
    size_t left = actions * schedule->stages * schedule->micro_batches, begun;
    bool is_limited = true, is_busy;
    for (uint32_t slot = 0; left > 0; slot += is_limited) {
        if (!run_slot(greedy, slot, is_limited, &begun, &is_busy, error))
            return false;
        left -= begun;
        is_limited = begun > 0 || is_busy;
    }
    return true;
}

static bool greedy_create(struct greedy *greedy)
{
    const struct schedule *schedule = greedy->schedule;
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
    greedy->lanes = calloc((size_t)schedule->route_count * schedule->stages, sizeof *greedy->lanes);
    greedy->first = calloc((size_t)schedule->ranks + 1, sizeof *greedy->first);
    greedy->workers = calloc(schedule->ranks, sizeof *greedy->workers);
    greedy->forward_ends = malloc(units * sizeof *greedy->forward_ends);
    greedy->backward_ends = malloc(units * sizeof *greedy->backward_ends);
    if (!greedy->lanes || !greedy->first || !greedy->workers || !greedy->forward_ends || !greedy->backward_ends)
        return false;
    for (size_t i = 0; i < units; i++)
        greedy->forward_ends[i] = greedy->backward_ends[i] = NEVER;
    place_lanes(greedy);
    return true;
}

static void greedy_clear(struct greedy *greedy)
{
    free(greedy->lanes);
    free(greedy->first);
    free(greedy->workers);
    free(greedy->forward_ends);
    free(greedy->backward_ends);
}

bool greedy_order(struct schedule *schedule, const struct greedy_rules *rules, struct error *error)
{
    struct greedy greedy = { .schedule = schedule, .rules = rules };
    const bool good = greedy_create(&greedy) ? run(&greedy, error) : error_no_memory(error, "an order");
    greedy_clear(&greedy);
    return good;
}
