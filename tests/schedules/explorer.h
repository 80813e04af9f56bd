// Every interleaving of a small lowered schedule: the prover's slow twin.
//
// A state is how far each rank is in its list; what is under way follows from that.
// From each state every move that is possible is tried, and every state is visited
// once. Messages wait in queues that know nothing of channels but which queue it is:
// one per channel, or one per ordered pair of ranks.
//
//     rank 0   0F0 0SEND_F0 | 0F1 ...       sent 1, received 0: one message in the queue 0 -> 1
//     rank 1   | 1RECV_F0 1F0 ...
#ifndef TESTS_SCHEDULES_EXPLORER_H
#define TESTS_SCHEDULES_EXPLORER_H

#include <string.h>

#include "schedules/schedule.h"
#include "tests/test.h"

enum { EXPLORER_RANKS = 5, EXPLORER_STATES = 60000 };

struct explorer {
    const struct schedule *schedule;
    uint32_t capacity;
    bool shared;
    bool *seen;       // per state
    size_t *to_visit;
    size_t visited;
    bool stuck, wrong, done;  // what some interleaving comes to
};

static inline bool explorer_is_message(struct action a)
{
    return a.kind >= ACTION_SEND_F && a.kind <= ACTION_RECV_B;
}

static inline bool explorer_sends(struct action a)
{
    return a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B;
}

static inline bool explorer_is_forward(struct action a)
{
    return a.kind == ACTION_SEND_F || a.kind == ACTION_RECV_F;
}

// The stage that a message comes from, and the one it goes to.
static inline uint32_t explorer_from(struct action a)
{
    return explorer_sends(a) ? a.stage : explorer_is_forward(a) ? a.stage - 1u : a.stage + 1u;
}

static inline uint32_t explorer_to(struct action a)
{
    return !explorer_sends(a) ? a.stage : explorer_is_forward(a) ? a.stage + 1u : a.stage - 1u;
}

static inline bool explorer_same_message(struct action a, struct action b)
{
    return explorer_is_forward(a) == explorer_is_forward(b) && explorer_from(a) == explorer_from(b)
        && a.micro_batch == b.micro_batch && a.split == b.split;
}

// Whether two messages go through the same queue.
static inline bool explorer_same_queue(const struct explorer *explorer, struct action a, struct action b)
{
    const struct schedule *s = explorer->schedule;
    if (explorer->shared)
        return schedule_rank(s, explorer_from(a), a.micro_batch) == schedule_rank(s, explorer_from(b), b.micro_batch)
            && schedule_rank(s, explorer_to(a), a.micro_batch) == schedule_rank(s, explorer_to(b), b.micro_batch);
    return explorer_is_forward(a) == explorer_is_forward(b) && explorer_from(a) == explorer_from(b)
        && s->route_of[a.micro_batch] == s->route_of[b.micro_batch];
}

// How many messages of the queue of `a` a rank has sent, or received, by now.
static inline size_t explorer_passed(const struct explorer *explorer, const size_t *at, uint32_t rank, bool sends,
                                     struct action a)
{
    size_t passed = 0;
    for (size_t i = 0; i < at[rank]; i++) {
        const struct action b = explorer->schedule->lists[rank].at[i];
        passed += explorer_is_message(b) && explorer_sends(b) == sends && explorer_same_queue(explorer, a, b);
    }
    return passed;
}

// The nth message that a rank sends through the queue of `a`.
static inline struct action explorer_nth(const struct explorer *explorer, uint32_t rank, size_t n, struct action a)
{
    const struct action_list *list = &explorer->schedule->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const struct action b = list->at[i];
        if (explorer_is_message(b) && explorer_sends(b) && explorer_same_queue(explorer, a, b) && n-- == 0)
            return b;
    }
    fail_msg("no such message");
    return (struct action){ 0 };
}

enum explored { EXPLORED_BLOCKED, EXPLORED_MOVED, EXPLORED_WRONG };

// Whether a rank holds a stage.
static inline bool explorer_holds(const struct explorer *explorer, uint32_t rank, uint32_t stage)
{
    const struct schedule *s = explorer->schedule;
    bool holds = false;
    for (uint32_t route = 0; route < s->route_count; route++)
        holds |= s->routes[route * s->stages + stage] == rank;
    return holds;
}

// A REDUCE is done by all copies at once, or by none. The lowest moves all.
static inline enum explored explorer_reduce(const struct explorer *explorer, size_t *at, uint32_t rank, struct action a)
{
    const struct schedule *s = explorer->schedule;
    for (uint32_t other = 0; other < s->ranks; other++) {
        const struct action_list *list = &s->lists[other];
        if (!explorer_holds(explorer, other, a.stage))
            continue;
        if (other < rank || at[other] == list->count || list->at[at[other]].kind != ACTION_REDUCE
            || list->at[at[other]].stage != a.stage)
            return EXPLORED_BLOCKED;
    }
    for (uint32_t other = 0; other < s->ranks; other++)
        at[other] += explorer_holds(explorer, other, a.stage);
    return EXPLORED_MOVED;
}

// The move of a rank, made in `at`.
static inline enum explored explorer_move(const struct explorer *explorer, size_t *at, uint32_t rank)
{
    const struct schedule *s = explorer->schedule;
    if (at[rank] == s->lists[rank].count)
        return EXPLORED_BLOCKED;
    const struct action a = s->lists[rank].at[at[rank]];
    if (a.kind == ACTION_REDUCE)
        return explorer_reduce(explorer, at, rank, a);
    if (!explorer_is_message(a)) {
        at[rank]++;
        return EXPLORED_MOVED;
    }
    const uint32_t from = schedule_rank(s, explorer_from(a), a.micro_batch);
    const uint32_t to = schedule_rank(s, explorer_to(a), a.micro_batch);
    const size_t sent = explorer_passed(explorer, at, from, true, a), got = explorer_passed(explorer, at, to, false, a);
    if (explorer->capacity == 0) {  // the sender moves both
        if (!explorer_sends(a) || at[to] == s->lists[to].count)
            return EXPLORED_BLOCKED;
        const struct action b = s->lists[to].at[at[to]];
        if (!explorer_is_message(b) || explorer_sends(b) || !explorer_same_queue(explorer, a, b))
            return EXPLORED_BLOCKED;
        at[from]++;
        at[to]++;
        return explorer_same_message(a, b) ? EXPLORED_MOVED : EXPLORED_WRONG;
    }
    if (explorer_sends(a) ? sent - got >= explorer->capacity : sent == got)
        return EXPLORED_BLOCKED;
    at[rank]++;
    return explorer_sends(a) || explorer_same_message(explorer_nth(explorer, from, got, a), a) ? EXPLORED_MOVED
                                                                                               : EXPLORED_WRONG;
}

static inline size_t explorer_number(const struct explorer *explorer, const size_t *at)
{
    size_t number = 0;
    for (uint32_t rank = 0; rank < explorer->schedule->ranks; rank++)
        number = number * (explorer->schedule->lists[rank].count + 1) + at[rank];
    return number;
}

static inline void explorer_positions(const struct explorer *explorer, size_t number, size_t *at)
{
    for (uint32_t rank = explorer->schedule->ranks; rank-- > 0;) {
        at[rank] = number % (explorer->schedule->lists[rank].count + 1);
        number /= explorer->schedule->lists[rank].count + 1;
    }
}

static inline size_t explorer_states(const struct schedule *schedule)
{
    size_t states = 1;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        states *= schedule->lists[rank].count + 1;
    return states;
}

// Tries all moves from one state; adds those it leads to.
static inline size_t explorer_visit(struct explorer *explorer, size_t number, size_t waiting)
{
    bool moved = false;
    for (uint32_t rank = 0; rank < explorer->schedule->ranks; rank++) {
        size_t at[EXPLORER_RANKS];
        explorer_positions(explorer, number, at);
        const enum explored move = explorer_move(explorer, at, rank);
        moved |= move != EXPLORED_BLOCKED;
        explorer->wrong |= move == EXPLORED_WRONG;
        const size_t next = explorer_number(explorer, at);
        if (move != EXPLORED_MOVED || explorer->seen[next])
            continue;
        explorer->seen[next] = true;
        explorer->to_visit[waiting++] = next;
    }
    const bool at_end = number + 1 == explorer_states(explorer->schedule);
    explorer->done |= at_end;
    explorer->stuck |= !moved && !at_end;
    return waiting;
}

// At most EXPLORER_STATES states and EXPLORER_RANKS ranks.
static inline struct explorer explore(const struct schedule *lowered, uint32_t capacity, bool shared)
{
    struct explorer explorer = { .schedule = lowered, .capacity = capacity, .shared = shared };
    const size_t states = explorer_states(lowered);
    explorer.seen = calloc(states, sizeof *explorer.seen);
    explorer.to_visit = calloc(states, sizeof *explorer.to_visit);
    assert_non_null(explorer.seen);
    assert_non_null(explorer.to_visit);
    explorer.seen[0] = true;
    for (size_t waiting = 1; waiting > 0; explorer.visited++) {
        const size_t number = explorer.to_visit[--waiting];
        waiting = explorer_visit(&explorer, number, waiting);
    }
    free(explorer.seen);
    free(explorer.to_visit);
    return explorer;
}

#endif
