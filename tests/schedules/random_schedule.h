// Random schedules that can run: any placement, any order that respects what
// needs what, backwards whole or in two, with or without recomputation.
#ifndef TESTS_SCHEDULES_RANDOM_SCHEDULE_H
#define TESTS_SCHEDULES_RANDOM_SCHEDULE_H

#include <string.h>

#include "schedules/network.h"
#include "schedules/schedule.h"
#include "tests/test.h"

// What one micro-batch has done on one stage, and how it is to do it.
struct random_unit {
    bool split, recompute;
    bool did_f, did_r, did_back, did_w;
};

struct random_pick {
    uint32_t stage, micro_batch;
    enum action_kind kind;
};

static inline void random_add(struct schedule *schedule, struct random_pick pick)
{
    struct error error = { 0 };
    const struct action action = { .stage = (uint16_t)pick.stage, .kind = (uint8_t)pick.kind,
                                   .micro_batch = pick.micro_batch };
    assert_good(schedule_add(schedule, schedule_rank(schedule, pick.stage, pick.micro_batch), action, &error), error);
}

// Every action that could come now.
static inline size_t random_candidates(const struct schedule *schedule, const struct random_unit *units,
                                       struct random_pick *picks)
{
    size_t count = 0;
    for (uint32_t i = 0; i < schedule->micro_batches; i++) {
        for (uint32_t s = 0; s < schedule->stages; s++) {
            const struct random_unit *unit = &units[i * schedule->stages + s];
            const bool input = s == 0 || unit[-1].did_f;
            const bool gradient = s + 1 == schedule->stages || unit[1].did_back;
            if (!unit->did_f && input)
                picks[count++] = (struct random_pick){ s, i, ACTION_F };
            if (unit->did_f && unit->recompute && !unit->did_r)
                picks[count++] = (struct random_pick){ s, i, ACTION_R };
            if (unit->did_f && (!unit->recompute || unit->did_r) && !unit->did_back && gradient)
                picks[count++] = (struct random_pick){ s, i, unit->split ? ACTION_I : ACTION_B };
            if (unit->did_back && unit->split && !unit->did_w)
                picks[count++] = (struct random_pick){ s, i, ACTION_W };
        }
    }
    return count;
}

static inline void random_do(struct random_unit *unit, enum action_kind kind)
{
    unit->did_f |= kind == ACTION_F;
    unit->did_r |= kind == ACTION_R;
    unit->did_back |= kind == ACTION_B || kind == ACTION_I;
    unit->did_w |= kind == ACTION_W;
}

// A step per stage and rank that holds it, at the end.
static inline void random_steps(struct schedule *schedule)
{
    for (uint32_t s = 0; s < schedule->stages; s++) {
        for (uint32_t route = 0; route < schedule->route_count; route++) {
            bool again = false;
            const uint32_t rank = schedule->routes[route * schedule->stages + s];
            for (uint32_t before = 0; before < route; before++)
                again |= schedule->routes[before * schedule->stages + s] == rank;
            struct error error = { 0 };
            if (!again)
                assert_good(schedule_add(schedule, rank, (struct action){ .stage = (uint16_t)s, .kind = ACTION_STEP, .micro_batch = NO_MICRO_BATCH },
                                         &error), error);
        }
    }
}

static inline struct schedule *random_schedule(uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t ranks = 1 + (uint32_t)random_below(seed, 5), stages = 1 + (uint32_t)random_below(seed, 6);
    const uint32_t micro_batches = 1 + (uint32_t)random_below(seed, 5);
    struct schedule *schedule = schedule_create("random", WEIGHTS_FLUSH, ranks, stages, micro_batches, &error);
    assert_good(schedule, error);
    if (random_below(seed, 3) == 0) {
        schedule->route_count = 2;
        free(schedule->routes);
        schedule->routes = calloc(2 * stages, sizeof *schedule->routes);
        for (uint32_t i = 0; i < micro_batches; i++)
            schedule->route_of[i] = (uint32_t)random_below(seed, 2);
    }
    for (uint32_t i = 0; i < schedule->route_count * stages; i++)
        schedule->routes[i] = (uint32_t)random_below(seed, ranks);

    struct random_unit units[6 * 5] = { 0 };
    const bool may_split = random_below(seed, 2), may_recompute = random_below(seed, 3) == 0;
    for (size_t i = 0; i < stages * micro_batches; i++) {
        units[i].split = may_split && random_below(seed, 2);
        units[i].recompute = may_recompute && random_below(seed, 2);
    }
    struct random_pick picks[4 * 6 * 5];
    for (size_t count; (count = random_candidates(schedule, units, picks)) > 0;) {
        const struct random_pick pick = picks[random_below(seed, count)];
        random_do(&units[pick.micro_batch * stages + pick.stage], pick.kind);
        random_add(schedule, pick);
    }
    random_steps(schedule);
    return schedule;
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
    switch (random_below(seed, 12)) {
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
