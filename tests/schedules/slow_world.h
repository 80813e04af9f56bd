// The checker's slow twin: a world in which ranks really do what a schedule says,
// in a random interleaving, one small move at a time, with sends that block.
//
// Values exist or do not; a message is a number in a queue; what is received is
// used. Nothing is known beforehand: a schedule is bad when something it uses is
// not there, when the wrong message comes, when nobody can move, or when at the
// end something has not been done.
#ifndef TESTS_SCHEDULES_SLOW_WORLD_H
#define TESTS_SCHEDULES_SLOW_WORLD_H

#include <string.h>

#include "schedules/schedule.h"
#include "tests/test.h"

enum { WORLD_STAGES = 6, WORLD_MICRO_BATCHES = 5, WORLD_RANKS = 5, WORLD_ROUTES = 2 };

enum move { MOVED, BLOCKED, WRONG };

struct queue {
    uint32_t items[64];
    size_t count;
};

struct world {
    const struct schedule *schedule;
    uint32_t capacity;
    size_t at[WORLD_RANKS];
    // Per stage and micro-batch, times done; inputs and gradients received.
    int f[WORLD_STAGES][WORLD_MICRO_BATCHES], b[WORLD_STAGES][WORLD_MICRO_BATCHES];
    int i[WORLD_STAGES][WORLD_MICRO_BATCHES], w[WORLD_STAGES][WORLD_MICRO_BATCHES];
    int r[WORLD_STAGES][WORLD_MICRO_BATCHES];
    int got[2][WORLD_STAGES][WORLD_MICRO_BATCHES], sent[2][WORLD_STAGES][WORLD_MICRO_BATCHES];
    int steps[WORLD_RANKS][WORLD_STAGES], used[WORLD_RANKS][WORLD_STAGES];
    struct queue queues[WORLD_ROUTES][WORLD_STAGES][2];
};

static inline uint32_t world_home(const struct world *world, uint32_t stage, uint32_t micro_batch)
{
    return schedule_rank(world->schedule, stage, micro_batch);
}

static inline bool world_is_here(const struct world *world, uint32_t rank, struct action a)
{
    const struct schedule *s = world->schedule;
    if (a.stage >= s->stages || a.split)
        return false;
    if (a.kind == ACTION_STEP || a.kind == ACTION_REDUCE) {
        bool here = false;
        for (uint32_t route = 0; route < s->route_count; route++)
            here |= s->routes[route * s->stages + a.stage] == rank;
        return here;
    }
    return a.micro_batch < s->micro_batches && world_home(world, a.stage, a.micro_batch) == rank;
}

// Whether the value that comes from a neighbour can be used now: MOVED if it can.
static inline enum move world_input(const struct world *world, uint32_t rank, struct action a, bool forward)
{
    const uint32_t s = a.stage, i = a.micro_batch, last = world->schedule->stages - 1;
    if (s == (forward ? 0 : last))
        return MOVED;
    const uint32_t neighbour = forward ? s - 1 : s + 1;
    const bool made = forward ? world->f[neighbour][i] : world->b[neighbour][i] || world->i[neighbour][i];
    if (world_home(world, neighbour, i) == rank)
        return made ? MOVED : WRONG;
    if (world->schedule->lowered)
        return world->got[!forward][s][i] ? MOVED : WRONG;
    return made ? MOVED : BLOCKED;
}

static inline enum move world_compute(struct world *world, uint32_t rank, struct action a)
{
    const uint32_t s = a.stage, i = a.micro_batch;
    const bool back = world->b[s][i] || world->i[s][i];
    enum move input = MOVED;
    if (world->steps[rank][s] > 0)
        return WRONG;
    world->used[rank][s] = 1;
    switch (a.kind) {
    case ACTION_F:
        input = world->f[s][i] ? WRONG : world_input(world, rank, a, true);
        world->f[s][i] += input == MOVED;
        return input;
    case ACTION_B:
    case ACTION_I:
        // A value that is still to come may be waited for even before it is known that F is missing here.
        input = world_input(world, rank, a, false);
        if (input == MOVED && (back || !world->f[s][i]))
            return WRONG;
        if (a.kind == ACTION_B)
            world->b[s][i] += input == MOVED;
        else
            world->i[s][i] += input == MOVED;
        return input;
    case ACTION_W:
        return world->i[s][i] && !world->w[s][i]++ ? MOVED : WRONG;
    default:
        return world->f[s][i] && !back && !world->r[s][i]++ ? MOVED : WRONG;
    }
}

static inline struct action world_current(const struct world *world, uint32_t rank)
{
    const struct action_list *list = &world->schedule->lists[rank];
    return world->at[rank] < list->count ? list->at[world->at[rank]] : (struct action){ .kind = ACTION_STEP };
}

// The queue of a SEND, or of a RECV.
static inline struct queue *world_queue(struct world *world, struct action a)
{
    const bool forward = a.kind == ACTION_SEND_F || a.kind == ACTION_RECV_F;
    const bool sends = a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B;
    const uint32_t from = sends ? a.stage : forward ? a.stage - 1u : a.stage + 1u;
    return &world->queues[world->schedule->route_of[a.micro_batch]][from][!forward];
}

static inline enum move world_send(struct world *world, uint32_t rank, struct action a)
{
    const bool forward = a.kind == ACTION_SEND_F;
    const uint32_t s = a.stage, i = a.micro_batch;
    const uint32_t to = forward ? s + 1 : s - 1;
    if (s == (forward ? world->schedule->stages - 1 : 0) || world_home(world, to, i) == rank)
        return WRONG;
    if (world->sent[!forward][s][i] || !(forward ? world->f[s][i] : world->b[s][i] || world->i[s][i]))
        return WRONG;
    struct queue *queue = world_queue(world, a);
    if (world->capacity > 0) {
        if (queue->count >= world->capacity)
            return BLOCKED;
        queue->items[queue->count++] = i;
    } else {
        const uint32_t peer = world_home(world, to, i);
        const struct action other = world_current(world, peer);
        const enum action_kind receive = forward ? ACTION_RECV_F : ACTION_RECV_B;
        if (other.kind != receive || !world_is_here(world, peer, other) || other.stage != to
            || world_queue(world, other) != queue)
            return BLOCKED;
        if (other.micro_batch != i || world->got[!forward][to][i]++)
            return WRONG;
        world->at[peer]++;
    }
    world->sent[!forward][s][i] = 1;
    return MOVED;
}

static inline enum move world_receive(struct world *world, uint32_t rank, struct action a)
{
    const bool forward = a.kind == ACTION_RECV_F;
    const uint32_t s = a.stage, i = a.micro_batch;
    if (s == (forward ? 0 : world->schedule->stages - 1) || world_home(world, forward ? s - 1 : s + 1, i) == rank)
        return WRONG;
    struct queue *queue = world_queue(world, a);
    if (queue->count == 0)
        return BLOCKED;  // with capacity 0 the sender moves both
    if (queue->items[0] != i || world->got[!forward][s][i]++)
        return WRONG;
    memmove(queue->items, queue->items + 1, --queue->count * sizeof queue->items[0]);
    return MOVED;
}

static inline enum move world_move(struct world *world, uint32_t rank)
{
    if (world->at[rank] == world->schedule->lists[rank].count)
        return BLOCKED;
    const struct action a = world_current(world, rank);
    enum move move;
    if (!world_is_here(world, rank, a))
        return WRONG;
    if (a.kind <= ACTION_R)
        move = world_compute(world, rank, a);
    else if (a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B)
        move = world_send(world, rank, a);
    else if (a.kind == ACTION_RECV_F || a.kind == ACTION_RECV_B)
        move = world_receive(world, rank, a);
    else
        move = a.kind == ACTION_STEP && (world->steps[rank][a.stage]++ || a.micro_batch != NO_MICRO_BATCH) ? WRONG : MOVED;
    if (move == MOVED)
        world->at[rank]++;
    return move;
}

// Whether all is done, once, and nothing is under way.
static inline bool world_is_complete(const struct world *world)
{
    const struct schedule *schedule = world->schedule;
    bool any_step = false, good = true;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        good &= world->at[rank] == schedule->lists[rank].count;
        for (uint32_t s = 0; s < schedule->stages; s++)
            any_step |= world->steps[rank][s] > 0;
    }
    for (uint32_t s = 0; s < schedule->stages; s++) {
        for (uint32_t rank = 0; rank < schedule->ranks; rank++)
            good &= !any_step || !world->used[rank][s] || world->steps[rank][s] == 1;
        for (uint32_t i = 0; i < schedule->micro_batches; i++) {
            good &= world->f[s][i] == 1 && (world->b[s][i] + world->i[s][i]) == 1 && world->i[s][i] == world->w[s][i];
            const bool crosses = s + 1 < schedule->stages && world_home(world, s, i) != world_home(world, s + 1, i);
            if (schedule->lowered && crosses)
                good &= world->got[0][s + 1][i] && world->got[1][s][i];
        }
    }
    for (size_t q = 0; q < WORLD_ROUTES * WORLD_STAGES * 2; q++)
        good &= (&world->queues[0][0][0])[q].count == 0;
    return good;
}

// Lives through a schedule (flush) in a random order of moves.
static inline bool world_survives(const struct schedule *schedule, uint32_t capacity, uint64_t seed)
{
    struct world world = { .schedule = schedule, .capacity = capacity };
    while (true) {
        bool moved = false;
        const uint32_t first = (uint32_t)random_below(&seed, schedule->ranks);
        for (uint32_t k = 0; k < schedule->ranks && !moved; k++) {
            const enum move move = world_move(&world, (first + k) % schedule->ranks);
            if (move == WRONG)
                return false;
            moved = move == MOVED;
        }
        if (!moved)
            return world_is_complete(&world);
    }
}

#endif
