// Random schedules that can run: any placement, any order that respects what
// needs what, backwards whole or in two, with or without recomputation; one or two
// routes, sequences whole or in splits, groups of a forward and a backward,
// reductions, validations, what is kept sent to the host and fetched back, anywhere between; now and then inference.
#ifndef TESTS_SCHEDULES_RANDOM_SCHEDULE_H
#define TESTS_SCHEDULES_RANDOM_SCHEDULE_H

#include <string.h>

#include "schedules/network.h"
#include "schedules/schedule.h"
#include "tests/test.h"

enum { RANDOM_RANKS = 5, RANDOM_STAGES = 6, RANDOM_MICRO_BATCHES = 5, RANDOM_SPLITS = 3,
       RANDOM_UNITS = RANDOM_STAGES * RANDOM_MICRO_BATCHES * RANDOM_SPLITS };

// What one split of a micro-batch has done on one stage, and how it is to do it.
struct random_unit {
    bool halves, recompute;
    bool did_f, did_r, did_back, did_w;
};

// What a stage has had on a rank.
struct random_copy {
    bool is_here, computes_back, reduced, stepped, validated;
};

struct random_making {
    struct schedule *schedule;
    bool groups, reduces, validates, forward_only;
    struct random_unit units[RANDOM_STAGES][RANDOM_MICRO_BATCHES][RANDOM_SPLITS];
    struct random_copy copies[RANDOM_STAGES][RANDOM_RANKS];
    struct action picks[4 * RANDOM_UNITS + 3 * RANDOM_STAGES * RANDOM_RANKS];
    uint32_t ranks[4 * RANDOM_UNITS + 3 * RANDOM_STAGES * RANDOM_RANKS];
    size_t count;
};

static inline bool random_goes_back(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_I;
}

static inline void random_add(struct schedule *schedule, uint32_t rank, struct action action)
{
    struct error error = { 0 };
    assert_good(schedule_add(schedule, rank, action, &error), error);
}

static inline void random_pick(struct random_making *making, uint32_t rank, uint32_t stage, enum action_kind kind,
                               uint32_t micro_batch, uint32_t split)
{
    making->ranks[making->count] = rank;
    making->picks[making->count++] = (struct action){ .stage = (uint16_t)stage, .kind = (uint8_t)kind,
                                                      .split = split & 0x7f, .micro_batch = micro_batch };
}

// Adds what could come now of one unit.
static inline void random_pick_unit(struct random_making *making, uint32_t s, uint32_t i, uint32_t j)
{
    const struct schedule *schedule = making->schedule;
    const struct random_unit *unit = &making->units[s][i][j];
    const uint32_t rank = schedule_rank(schedule, s, i);
    const bool input = (s == 0 || making->units[s - 1][i][j].did_f) && (j == 0 || unit[-1].did_f);
    const bool gradient = (s + 1 == schedule->stages || making->units[s + 1][i][j].did_back)
                       && (j + 1 == schedule->splits || unit[1].did_back);
    if (!unit->did_f && input)
        random_pick(making, rank, s, ACTION_F, i, j);
    if (making->forward_only)
        return;
    if (unit->did_f && unit->recompute && !unit->did_r)
        random_pick(making, rank, s, ACTION_R, i, j);
    if (unit->did_f && (!unit->recompute || unit->did_r) && !unit->did_back && gradient)
        random_pick(making, rank, s, unit->halves ? ACTION_I : ACTION_B, i, j);
    if (unit->did_back && unit->halves && !unit->did_w)
        random_pick(making, rank, s, ACTION_W, i, j);
}

static inline uint32_t random_copies(const struct random_making *making, uint32_t s)
{
    uint32_t copies = 0;
    for (uint32_t rank = 0; rank < making->schedule->ranks; rank++)
        copies += making->copies[s][rank].is_here;
    return copies;
}

static inline bool random_is_over(const struct random_making *making, uint32_t s)
{
    bool over = !making->forward_only;
    for (uint32_t i = 0; i < making->schedule->micro_batches; i++) {
        for (uint32_t j = 0; j < making->schedule->splits; j++) {
            const struct random_unit *unit = &making->units[s][i][j];
            over &= unit->did_back && (!unit->halves || unit->did_w);
        }
    }
    return over;
}

// Adds what could come now of a stage's copies.
static inline void random_pick_stage(struct random_making *making, uint32_t s)
{
    const bool over = random_is_over(making, s), reduces = making->reduces || random_copies(making, s) > 1;
    bool asked = false;
    for (uint32_t rank = 0; rank < making->schedule->ranks; rank++) {
        const struct random_copy *copy = &making->copies[s][rank];
        if (!copy->is_here || making->forward_only)
            continue;
        if (making->validates && !copy->validated && !copy->computes_back)
            random_pick(making, rank, s, ACTION_VALIDATE, NO_MICRO_BATCH, 0);
        if (over && reduces && !copy->reduced && !asked)
            random_pick(making, rank, s, ACTION_REDUCE, NO_MICRO_BATCH, 0);
        if (over && (!reduces || copy->reduced) && !copy->stepped)
            random_pick(making, rank, s, ACTION_STEP, NO_MICRO_BATCH, 0);
        asked = true;
    }
}

static inline void random_pick_all(struct random_making *making)
{
    making->count = 0;
    for (uint32_t s = 0; s < making->schedule->stages; s++) {
        for (uint32_t i = 0; i < making->schedule->micro_batches; i++) {
            for (uint32_t j = 0; j < making->schedule->splits; j++)
                random_pick_unit(making, s, i, j);
        }
        random_pick_stage(making, s);
    }
}

// Says that it has been done; a REDUCE by all copies.
static inline void random_note(struct random_making *making, uint32_t rank, struct action action)
{
    struct random_copy *copies = making->copies[action.stage];
    copies[rank].stepped |= action.kind == ACTION_STEP;
    copies[rank].validated |= action.kind == ACTION_VALIDATE;
    copies[rank].computes_back |= random_goes_back(action);
    for (uint32_t r = 0; r < making->schedule->ranks && action.kind == ACTION_REDUCE; r++) {
        if (copies[r].is_here && r != rank)
            random_add(making->schedule, r, action);
        copies[r].reduced |= copies[r].is_here;
    }
    if (action.kind >= ACTION_REDUCE)
        return;
    struct random_unit *unit = &making->units[action.stage][action.micro_batch][action.split];
    unit->did_f |= action.kind == ACTION_F;
    unit->did_r |= action.kind == ACTION_R;
    unit->did_back |= random_goes_back(action);
    unit->did_w |= action.kind == ACTION_W;
}

static inline void random_do(struct random_making *making, size_t pick, bool joined)
{
    struct action action = making->picks[pick];
    action.joined = joined;
    random_add(making->schedule, making->ranks[pick], action);
    random_note(making, making->ranks[pick], action);
}

// Whether two things that could come now can also be done together.
static inline bool random_can_join(const struct random_making *making, size_t a, size_t b)
{
    const struct action x = making->picks[a], y = making->picks[b];
    return making->ranks[a] == making->ranks[b] && (x.stage != y.stage || x.micro_batch != y.micro_batch)
        && ((x.kind == ACTION_F && random_goes_back(y)) || (random_goes_back(x) && y.kind == ACTION_F));
}

static inline void random_do_some(struct random_making *making, uint64_t *seed)
{
    const size_t pick = random_below(seed, making->count), other = random_below(seed, making->count);
    const bool joined = making->groups && random_can_join(making, pick, other);
    random_do(making, pick, joined);
    if (joined)
        random_do(making, other, false);
}

static inline void random_place(struct random_making *making, uint64_t *seed)
{
    struct schedule *schedule = making->schedule;
    if (random_below(seed, 3) == 0) {
        schedule->route_count = 2;
        free(schedule->routes);
        schedule->routes = calloc(2 * schedule->stages, sizeof *schedule->routes);
        for (uint32_t i = 0; i < schedule->micro_batches; i++)
            schedule->route_of[i] = (uint32_t)random_below(seed, 2);
    }
    for (uint32_t at = 0; at < schedule->route_count * schedule->stages; at++) {
        schedule->routes[at] = (uint32_t)random_below(seed, schedule->ranks);
        making->copies[at % schedule->stages][schedule->routes[at]].is_here = true;
    }
}

// Where in a list the first action of these kinds stands of a unit; of a group its beginning, or its end.
static inline size_t random_find(const struct action_list *list, struct action of, unsigned kinds, bool end)
{
    size_t at = 0;
    while (at < list->count
           && !((kinds >> list->at[at].kind & 1) && list->at[at].stage == of.stage
                && list->at[at].micro_batch == of.micro_batch && list->at[at].split == of.split))
        at++;
    while (end && list->at[at].joined)
        at++;
    while (!end && at > 0 && list->at[at - 1].joined)
        at--;
    return at + end;
}

// Anywhere from `first` to `last`, but within a group; where it stands then.
static inline size_t random_insert(struct schedule *schedule, uint64_t *seed, uint32_t rank, size_t first, size_t last,
                                   struct action action)
{
    struct action_list *list = &schedule->lists[rank];
    size_t at = first + random_below(seed, last - first + 1);
    while (at > first && list->at[at - 1].joined)
        at--;
    random_add(schedule, rank, action);
    memmove(&list->at[at + 1], &list->at[at], (list->count - 1 - at) * sizeof action);
    list->at[at] = action;
    return at;
}

// Some units go to the host between their F and what first needs them again.
static inline void random_add_moves(struct schedule *schedule, uint64_t *seed)
{
    const unsigned needs = 1u << ACTION_B | 1u << ACTION_I | 1u << ACTION_R;
    for (uint32_t i = 0; i < schedule->stages * schedule->micro_batches * schedule->splits; i++) {
        struct action move = { .stage = (uint16_t)(i / schedule->splits / schedule->micro_batches),
                               .micro_batch = i / schedule->splits % schedule->micro_batches,
                               .split = i % schedule->splits & 0x7f, .kind = ACTION_EVICT };
        const uint32_t rank = schedule_rank(schedule, move.stage, move.micro_batch);
        const struct action_list *list = &schedule->lists[rank];
        if (random_below(seed, 3) == 0)
            continue;
        const size_t evict = random_insert(schedule, seed, rank, random_find(list, move, 1u << ACTION_F, true),
                                           random_find(list, move, needs, false), move);
        move.kind = ACTION_PREFETCH;
        random_insert(schedule, seed, rank, evict + 1, random_find(list, move, needs, false), move);
    }
}

// A plain one has neither splits, groups nor validations, nor a REDUCE where there is one copy, nor moves.
static inline struct schedule *random_schedule_as(uint64_t *seed, bool plain)
{
    struct error error = { 0 };
    const uint32_t ranks = 1 + (uint32_t)random_below(seed, RANDOM_RANKS);
    const uint32_t stages = 1 + (uint32_t)random_below(seed, RANDOM_STAGES);
    const uint32_t splits = plain || random_below(seed, 3) ? 1 : 2 + (uint32_t)random_below(seed, RANDOM_SPLITS - 1);
    const uint32_t micro_batches = 1 + (uint32_t)random_below(seed, splits > 1 ? 3 : RANDOM_MICRO_BATCHES);
    struct random_making making = { .schedule = schedule_create("random", WEIGHTS_FLUSH, ranks, stages, micro_batches,
                                                                &error) };
    assert_good(making.schedule, error);
    making.schedule->splits = splits;
    random_place(&making, seed);
    making.groups = !plain && random_below(seed, 2);
    making.reduces = !plain && random_below(seed, 4) == 0;
    making.validates = !plain && random_below(seed, 6) == 0;
    making.forward_only = !plain && random_below(seed, 12) == 0;
    const bool may_halve = random_below(seed, 2), may_recompute = random_below(seed, 3) == 0;
    for (size_t i = 0; i < RANDOM_UNITS; i++) {
        (&making.units[0][0][0])[i].halves = may_halve && random_below(seed, 2);
        (&making.units[0][0][0])[i].recompute = may_recompute && random_below(seed, 2);
    }
    for (random_pick_all(&making); making.count > 0; random_pick_all(&making))
        random_do_some(&making, seed);
    if (!plain && !making.forward_only && random_below(seed, 3) == 0)
        random_add_moves(making.schedule, seed);
    return making.schedule;
}

static inline struct schedule *random_schedule(uint64_t *seed)
{
    return random_schedule_as(seed, false);
}

static inline void random_move(struct action_list *list, size_t from, size_t to)
{
    const struct action action = list->at[from];
    const size_t low = from < to ? from : to, high = from < to ? to : from;
    if (from < to)
        memmove(&list->at[low], &list->at[low + 1], (high - low) * sizeof action);
    else
        memmove(&list->at[low + 1], &list->at[low], (high - low) * sizeof action);
    list->at[to] = action;
}

// Mostly moves over a short way, which often leave a schedule that can run.
static inline void random_mutate(struct schedule *schedule, uint64_t *seed)
{
    struct action_list *list = &schedule->lists[random_below(seed, schedule->ranks)];
    if (list->count < 2)
        return;
    const size_t at = random_below(seed, list->count);
    struct action *action = &list->at[at];
    const size_t reach = 1 + random_below(seed, random_below(seed, 3) ? 3 : list->count);
    switch (random_below(seed, 14)) {
    case 0:
        memmove(action, action + 1, (--list->count - at) * sizeof *action);
        break;
    case 1:
        action->micro_batch = (uint32_t)random_below(seed, schedule->micro_batches + 1u);
        break;
    case 2:
        action->stage = (uint16_t)random_below(seed, schedule->stages + 1u);
        break;
    case 3:
        if (action->kind <= ACTION_R)
            action->kind = (uint8_t)random_below(seed, ACTION_R + 1);
        break;
    case 4:
        list->at[random_below(seed, list->count)] = *action;
        break;
    case 5:
        action->joined = !action->joined;
        break;
    case 6:
        if (action->kind < ACTION_REDUCE)
            action->split = random_below(seed, schedule->splits + 1u) & 0x7f;
        break;
    default:
        random_move(list, at, random_below(seed, 2) ? (at > reach ? at - reach : 0)
                                                    : (at + reach < list->count ? at + reach : list->count - 1));
    }
}

static inline void random_costs(uint64_t *seed, struct cost_row *costs, uint32_t stages, uint64_t least_ns)
{
    for (uint32_t s = 0; s < stages; s++) {
        uint64_t *column = (uint64_t *)&costs[s];
        for (size_t i = 0; i < sizeof costs[s] / sizeof *column; i++)
            column[i] = random_below(seed, 20);
        costs[s].forward_ns += least_ns;
        costs[s].backward_ns += least_ns;
        costs[s].backward_input_ns += least_ns;
        costs[s].backward_weight_ns += least_ns;
        costs[s].recompute_ns += least_ns;
        costs[s].step_ns += least_ns;
        costs[s].reduce_ns += least_ns;
        costs[s].move_ns += least_ns;
        costs[s].moved_bytes = random_below(seed, costs[s].kept_forward_bytes + 1);
    }
}

// NULL now and then; with `shared`, fewer links than pairs.
static inline struct network *random_network(uint64_t *seed, uint32_t ranks, bool shared)
{
    struct error error = { 0 };
    if (random_below(seed, 5) == 0)
        return NULL;
    struct network *network = network_uniform(ranks, (struct link){ 0, 0 }, &error);
    assert_good(network, error);
    for (uint32_t i = 0; i < network->link_count; i++) {
        network->links[i].latency_ns = random_below(seed, 10);
        network->links[i].bytes_per_second = random_below(seed, 4) * 300000000;
    }
    const uint64_t used = 1 + random_below(seed, 4);
    for (uint32_t i = 0; shared && i < ranks * ranks; i++)
        network->link_of[i] = (uint32_t)(random_below(seed, used) % network->link_count);
    return network;
}

#endif
