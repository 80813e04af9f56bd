// The bytes on a rank, the slow way: everything that lies there has a life, from
// one moment to another, and at every beginning all that is alive is added up.
// The times are those of the simulator's slow twin.
#ifndef TESTS_SCHEDULES_SLOW_BYTES_H
#define TESTS_SCHEDULES_SLOW_BYTES_H

#include <string.h>

#include "tests/schedules/slow_simulator.h"

// A place in time: moments, and the order of what happens in one (simulate: ends,
// deliveries, arrivals, starts; then the order of the list).
enum phase { PHASE_END, PHASE_DELIVERED, PHASE_ARRIVED, PHASE_START };

struct moment {
    uint64_t time;
    enum phase phase;
    size_t position;
};

struct life {
    struct moment begin, end;
    uint64_t bytes;
};

struct lives {
    const struct slow *slow;
    const struct schedule *schedule;
    const struct cost_row *costs;
    bool forward_only;
    struct life at[SLOW_MOST];
    size_t count;
};

static inline bool moment_is_not_after(struct moment a, struct moment b)
{
    if (a.time != b.time)
        return a.time < b.time;
    return a.phase != b.phase ? a.phase < b.phase : a.position <= b.position;
}

static inline struct moment moment_of_start(const struct slow_action *action)
{
    return (struct moment){ action->start, PHASE_START, action->position };
}

// All of a group ends at once.
static inline struct moment moment_of_end(const struct slow_action *action)
{
    return (struct moment){ action->end, PHASE_END, action->position + action->action.joined };
}

static inline void lives_add(struct lives *lives, struct moment begin, struct moment end, uint64_t bytes)
{
    lives->at[lives->count++] = (struct life){ begin, end, bytes };
}

// When the rank reaches a RECV: when what stands before it has ended.
static inline struct moment moment_of_receive(const struct lives *lives, uint32_t rank, struct action receive)
{
    const struct slow *slow = lives->slow;
    const struct action_list *list = &lives->schedule->lists[rank];
    uint64_t time = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(&list->at[i], &receive, sizeof receive) == 0)
            return (struct moment){ time, PHASE_START, i };
        for (int j = 0; j < slow->count; j++) {
            if (slow->actions[j].rank == rank && slow->actions[j].position == i)
                time = slow->actions[j].end;
        }
    }
    fail_msg("a RECV is missing");
    return (struct moment){ 0 };
}

static inline const struct slow_action *lives_find(const struct lives *lives, struct action of, int stages_on,
                                                   unsigned kinds)
{
    const int at = slow_find_near(lives->slow, of, stages_on, kinds);
    assert_true(at >= 0);
    return &lives->slow->actions[at];
}

enum { KIND_F = 1 << ACTION_F, KINDS_BACK = 1 << ACTION_B | 1 << ACTION_I };

// What an F keeps, until its backward; a part of it is not here from when it is on the host until it is on its way back.
static inline void lives_add_kept_bytes(struct lives *lives, const struct slow_action *forward, struct moment end)
{
    const struct slow *slow = lives->slow;
    const struct action a = forward->action;
    const struct cost_row *row = &lives->costs[a.stage];
    const struct moment start = moment_of_start(forward);
    const int evict = slow_find(slow, a, 1u << ACTION_EVICT), prefetch = slow_find(slow, a, 1u << ACTION_PREFETCH);
    const uint64_t kept = slow_part(lives->schedule, a, row->kept_forward_bytes);
    const uint64_t moved = evict < 0 ? 0 : slow_part(lives->schedule, a, row->moved_bytes);
    lives_add(lives, start, end, kept - moved);
    if (evict < 0)
        return;
    const uint64_t begins = slow->actions[prefetch].moved - slow_part(lives->schedule, a, row->move_ns);
    lives_add(lives, start, (struct moment){ slow->actions[evict].moved, PHASE_DELIVERED, 0 }, moved);
    lives_add(lives, (struct moment){ begins, PHASE_ARRIVED, 0 }, end, moved);
}

// What an action works in, and what it leaves for others on its stage.
static inline void lives_add_kept(struct lives *lives, const struct slow_action *action)
{
    const struct action a = action->action;
    const struct schedule *schedule = lives->schedule;
    const struct cost_row *row = &lives->costs[a.stage];
    const struct moment start = moment_of_start(action), end = moment_of_end(action);
    lives_add(lives, start, end, slow_part(schedule, a, row->transient_bytes));
    if (a.kind == ACTION_F) {
        const uint64_t kept = slow_part(schedule, a, row->kept_forward_bytes);
        const uint64_t input = a.stage > 0 ? slow_part(schedule, a, row[-1].output_bytes) : 0;
        lives_add_kept_bytes(lives, action,
                             lives->forward_only ? end : moment_of_end(lives_find(lives, a, 0, KINDS_BACK)));
        lives_add(lives, start, end, input > kept ? input - kept : 0);
    }
    if (KINDS_BACK >> a.kind & 1) {  // since its R, or since it runs again itself
        const int again = slow_find_near(lives->slow, a, 0, 1 << ACTION_R);
        lives_add(lives, again >= 0 ? moment_of_start(&lives->slow->actions[again]) : start, end,
                  slow_part(schedule, a, row->again_bytes));
    }
    if (a.kind == ACTION_I)
        lives_add(lives, end, moment_of_end(lives_find(lives, a, 0, 1 << ACTION_W)),
                  slow_part(schedule, a, row->kept_weight_bytes));
}

// The slot of what the action takes in, if that came by a message.
static inline void lives_add_input(struct lives *lives, const struct slow_action *action)
{
    if (action->message < 0)
        return;
    const bool forward = action->action.kind == ACTION_F;
    struct action receive = action->action;
    receive.kind = forward ? ACTION_RECV_F : ACTION_RECV_B;
    receive.joined = 0;
    struct moment begin = { lives->slow->messages[action->message].arrival, PHASE_ARRIVED, 0 };
    if (lives->schedule->lowered)
        begin = moment_of_receive(lives, action->rank, receive);
    lives_add(lives, begin, forward ? moment_of_start(action) : moment_of_end(action),
              slow_part(lives->schedule, receive, lives->costs[forward ? receive.stage - 1 : receive.stage].output_bytes));
}

// The buffer of what the action makes for a neighbouring stage.
static inline void lives_add_result(struct lives *lives, const struct slow_action *action)
{
    const uint32_t s = action->action.stage;
    const bool forward = action->action.kind == ACTION_F;
    const bool goes_on = forward ? s + 1 < lives->schedule->stages : (KINDS_BACK >> action->action.kind & 1) && s > 0;
    if (!goes_on)
        return;
    const struct slow_action *user = lives_find(lives, action->action, forward ? 1 : -1, forward ? KIND_F : KINDS_BACK);
    struct moment end = forward ? moment_of_start(user) : moment_of_end(user);
    if (user->rank != action->rank)
        end = (struct moment){ lives->slow->messages[user->message].arrival, PHASE_DELIVERED, 0 };
    lives_add(lives, moment_of_start(action), end,
              slow_part(lives->schedule, action->action, lives->costs[forward ? s : s - 1].output_bytes));
}

static inline uint64_t lives_most(const struct lives *lives, uint64_t fixed)
{
    uint64_t most = fixed;
    for (size_t i = 0; i < lives->count; i++) {
        const struct moment moment = lives->at[i].begin;
        uint64_t now = fixed;
        for (size_t j = 0; j < lives->count; j++) {
            if (moment_is_not_after(lives->at[j].begin, moment) && !moment_is_not_after(lives->at[j].end, moment))
                now += lives->at[j].bytes;
        }
        most = now > most ? now : most;
    }
    return most;
}

static inline uint64_t slow_peak_bytes(const struct slow *slow, const struct schedule *schedule,
                                       const struct cost_row *costs, uint32_t rank)
{
    static struct lives lives;
    lives.slow = slow;
    lives.schedule = schedule;
    lives.costs = costs;
    lives.count = 0;
    lives.forward_only = true;
    for (int i = 0; i < slow->count; i++)
        lives.forward_only &= slow->actions[i].action.kind == ACTION_F;
    for (int i = 0; i < slow->count; i++) {
        const struct slow_action *action = &slow->actions[i];
        if (action->rank != rank || action->action.kind > ACTION_R)
            continue;
        lives_add_kept(&lives, action);
        lives_add_input(&lives, action);
        lives_add_result(&lives, action);
    }
    uint64_t fixed = 0;
    for (uint32_t s = 0; s < schedule->stages; s++) {
        bool here = false;
        for (uint32_t route = 0; route < schedule->route_count; route++)
            here |= schedule->routes[route * schedule->stages + s] == rank;
        fixed += here ? costs[s].fixed_bytes : 0;
    }
    return lives_most(&lives, fixed);
}

#endif
