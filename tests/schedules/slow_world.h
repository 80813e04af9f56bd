// The checker's slow twin: a world in which ranks really do what a schedule says,
// in a random interleaving, one small move at a time, with sends that block.
//
// Values exist or do not; a message is a number in a queue; what is received is
// used; a group is done whole or not at all; a REDUCE is done by all copies at once.
// Nothing is known beforehand: a schedule is bad when something it uses is not there, when the wrong message comes, when nobody can move, or when at the
// end something has not been done.
#ifndef TESTS_SCHEDULES_SLOW_WORLD_H
#define TESTS_SCHEDULES_SLOW_WORLD_H

#include <string.h>

#include "schedules/schedule.h"
#include "tests/test.h"

// A column is a split of a micro-batch.
enum { WORLD_STAGES = 6, WORLD_COLUMNS = 9, WORLD_RANKS = 5, WORLD_ROUTES = 2 };

enum move { MOVED, BLOCKED, WRONG };

struct queue {
    uint32_t items[64];
    size_t count;
};

struct world {
    const struct schedule *schedule;
    uint32_t capacity;
    size_t at[WORLD_RANKS];
    // Per stage and column, times done; inputs and gradients received.
    int f[WORLD_STAGES][WORLD_COLUMNS], b[WORLD_STAGES][WORLD_COLUMNS];
    int i[WORLD_STAGES][WORLD_COLUMNS], w[WORLD_STAGES][WORLD_COLUMNS];
    int r[WORLD_STAGES][WORLD_COLUMNS], left[WORLD_STAGES][WORLD_COLUMNS], came[WORLD_STAGES][WORLD_COLUMNS];
    int got[2][WORLD_STAGES][WORLD_COLUMNS], sent[2][WORLD_STAGES][WORLD_COLUMNS];
    int steps[WORLD_RANKS][WORLD_STAGES], used[WORLD_RANKS][WORLD_STAGES], backs[WORLD_RANKS][WORLD_STAGES];
    int reduces[WORLD_RANKS][WORLD_STAGES], validations[WORLD_RANKS][WORLD_STAGES];
    struct queue queues[WORLD_ROUTES][WORLD_STAGES][2];
};

static inline uint32_t world_home(const struct world *world, uint32_t stage, uint32_t micro_batch)
{
    return schedule_rank(world->schedule, stage, micro_batch);
}

static inline uint32_t world_column(const struct world *world, struct action a)
{
    return a.micro_batch * world->schedule->splits + a.split;
}

static inline bool world_holds(const struct world *world, uint32_t rank, uint32_t stage)
{
    const struct schedule *s = world->schedule;
    bool here = false;
    for (uint32_t route = 0; route < s->route_count; route++)
        here |= s->routes[route * s->stages + stage] == rank;
    return here;
}

static inline uint32_t world_copies(const struct world *world, uint32_t stage)
{
    uint32_t copies = 0;
    for (uint32_t rank = 0; rank < world->schedule->ranks; rank++)
        copies += world_holds(world, rank, stage);
    return copies;
}

static inline bool world_is_here(const struct world *world, uint32_t rank, struct action a)
{
    const struct schedule *s = world->schedule;
    if (a.stage >= s->stages)
        return false;
    if (a.kind == ACTION_STEP || a.kind == ACTION_REDUCE || a.kind == ACTION_VALIDATE)
        return world_holds(world, rank, a.stage);
    return a.micro_batch < s->micro_batches && a.split < s->splits && world_home(world, a.stage, a.micro_batch) == rank;
}

// Whether the value that comes from a neighbour can be used now: MOVED if it can.
static inline enum move world_input(const struct world *world, uint32_t rank, struct action a, bool forward)
{
    const uint32_t s = a.stage, i = world_column(world, a), last = world->schedule->stages - 1;
    if (s == (forward ? 0 : last))
        return MOVED;
    const uint32_t neighbour = forward ? s - 1 : s + 1;
    const bool made = forward ? world->f[neighbour][i] : world->b[neighbour][i] || world->i[neighbour][i];
    if (world_home(world, neighbour, a.micro_batch) == rank)
        return made ? MOVED : WRONG;
    if (world->schedule->lowered)
        return world->got[!forward][s][i] ? MOVED : WRONG;
    return made ? MOVED : BLOCKED;
}

// Whether the split before has gone forward, or the one behind backward.
static inline bool world_chain(const struct world *world, struct action a)
{
    const uint32_t s = a.stage, i = world_column(world, a);
    if (a.kind == ACTION_F)
        return a.split == 0 || world->f[s][i - 1];
    return a.split + 1u == world->schedule->splits || world->b[s][i + 1] || world->i[s][i + 1];
}

static inline enum move world_compute(struct world *world, uint32_t rank, struct action a)
{
    const uint32_t s = a.stage, i = world_column(world, a);
    const bool back = world->b[s][i] || world->i[s][i];
    enum move input = MOVED;
    if (world->steps[rank][s] > 0 || (world->reduces[rank][s] > 0 && a.kind != ACTION_F && a.kind != ACTION_R))
        return WRONG;
    world->used[rank][s] = 1;
    world->backs[rank][s] |= a.kind != ACTION_F && a.kind != ACTION_R;
    switch (a.kind) {
    case ACTION_F:
        input = world->f[s][i] ? WRONG : world_input(world, rank, a, true);
        if (input == MOVED && !world_chain(world, a))
            return WRONG;
        world->f[s][i] += input == MOVED;
        return input;
    case ACTION_B:
    case ACTION_I:
        // A value that is still to come may be waited for even before it is known that F is missing here.
        input = world_input(world, rank, a, false);
        if (input == MOVED
            && (back || !world->f[s][i] || world->left[s][i] > world->came[s][i] || !world_chain(world, a)))
            return WRONG;
        if (a.kind == ACTION_B)
            world->b[s][i] += input == MOVED;
        else
            world->i[s][i] += input == MOVED;
        return input;
    case ACTION_W:
        return world->i[s][i] && !world->w[s][i]++ ? MOVED : WRONG;
    default:
        return world->f[s][i] && !back && world->left[s][i] == world->came[s][i] && !world->r[s][i]++ ? MOVED : WRONG;
    }
}

// To the host, once, before anything needs it; and back.
static inline enum move world_to_host(struct world *world, struct action a)
{
    const uint32_t s = a.stage, i = world_column(world, a);
    if (a.kind == ACTION_PREFETCH)
        return world->left[s][i] && !world->came[s][i]++ ? MOVED : WRONG;
    const bool is_needed = world->b[s][i] || world->i[s][i] || world->r[s][i];
    return world->f[s][i] && !is_needed && !world->left[s][i]++ ? MOVED : WRONG;
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
    const uint32_t s = a.stage, i = world_column(world, a);
    const uint32_t to = forward ? s + 1 : s - 1;
    if (s == (forward ? world->schedule->stages - 1 : 0) || world_home(world, to, a.micro_batch) == rank)
        return WRONG;
    if (world->sent[!forward][s][i] || !(forward ? world->f[s][i] : world->b[s][i] || world->i[s][i]))
        return WRONG;
    struct queue *queue = world_queue(world, a);
    if (world->capacity > 0) {
        if (queue->count >= world->capacity)
            return BLOCKED;
        queue->items[queue->count++] = i;
    } else {
        const uint32_t peer = world_home(world, to, a.micro_batch);
        const struct action other = world_current(world, peer);
        const enum action_kind receive = forward ? ACTION_RECV_F : ACTION_RECV_B;
        if (other.kind != receive || !world_is_here(world, peer, other) || other.stage != to
            || world_queue(world, other) != queue)
            return BLOCKED;
        if (other.joined || world_column(world, other) != i || world->got[!forward][to][i]++)
            return WRONG;
        world->at[peer]++;
    }
    world->sent[!forward][s][i] = 1;
    return MOVED;
}

static inline enum move world_receive(struct world *world, uint32_t rank, struct action a)
{
    const bool forward = a.kind == ACTION_RECV_F;
    const uint32_t s = a.stage, i = world_column(world, a);
    if (s == (forward ? 0 : world->schedule->stages - 1)
        || world_home(world, forward ? s - 1 : s + 1, a.micro_batch) == rank)
        return WRONG;
    struct queue *queue = world_queue(world, a);
    if (queue->count == 0)
        return BLOCKED;  // with capacity 0 the sender moves both
    if (queue->items[0] != i || world->got[!forward][s][i]++)
        return WRONG;
    memmove(queue->items, queue->items + 1, --queue->count * sizeof queue->items[0]);
    return MOVED;
}

// Not the stage's first of its kind, or with a number.
static inline enum move world_update(struct world *world, uint32_t rank, struct action a)
{
    int *times = a.kind == ACTION_STEP ? world->steps[rank] : world->validations[rank];
    if (a.micro_batch != NO_MICRO_BATCH || times[a.stage]++)
        return WRONG;
    if (a.kind == ACTION_STEP)
        return world_copies(world, a.stage) > 1 && !world->reduces[rank][a.stage] ? WRONG : MOVED;
    return world->backs[rank][a.stage] ? WRONG : MOVED;
}

// All copies but this one are moved here.
static inline enum move world_reduce(struct world *world, uint32_t rank, struct action a)
{
    if (a.micro_batch != NO_MICRO_BATCH || world->reduces[rank][a.stage] || world->steps[rank][a.stage])
        return WRONG;
    for (uint32_t r = 0; r < world->schedule->ranks; r++) {
        const struct action other = world_current(world, r);
        if (world_holds(world, r, a.stage) && (other.kind != ACTION_REDUCE || other.stage != a.stage))
            return BLOCKED;
    }
    for (uint32_t r = 0; r < world->schedule->ranks; r++) {
        const bool here = world_holds(world, r, a.stage);
        const struct action other = world_current(world, r);
        if (here && (other.joined || other.micro_batch != NO_MICRO_BATCH || world->reduces[r][a.stage]++ || world->steps[r][a.stage]))
            return WRONG;
        world->at[r] += here && r != rank;
    }
    return MOVED;
}

static inline enum move world_one(struct world *world, uint32_t rank, struct action a)
{
    if (!world_is_here(world, rank, a))
        return WRONG;
    if (a.kind <= ACTION_R)
        return world_compute(world, rank, a);
    if (a.kind == ACTION_EVICT || a.kind == ACTION_PREFETCH)
        return world_to_host(world, a);
    if (a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B)
        return world_send(world, rank, a);
    if (a.kind == ACTION_RECV_F || a.kind == ACTION_RECV_B)
        return world_receive(world, rank, a);
    return a.kind == ACTION_REDUCE ? world_reduce(world, rank, a) : world_update(world, rank, a);
}

// A forward and a backward, not of the same micro-batch on one stage; nothing else.
static inline bool world_can_join(struct action a, struct action b)
{
    const bool a_back = a.kind == ACTION_B || a.kind == ACTION_I, b_back = b.kind == ACTION_B || b.kind == ACTION_I;
    return !b.joined && (a.stage != b.stage || a.micro_batch != b.micro_batch)
        && ((a.kind == ACTION_F && b_back) || (a_back && b.kind == ACTION_F));
}

// One action, or two at once: both or neither.
static inline enum move world_move(struct world *world, uint32_t rank)
{
    const struct action_list *list = &world->schedule->lists[rank];
    const size_t at = world->at[rank];
    if (at == list->count)
        return BLOCKED;
    const bool joined = list->at[at].joined;
    if (joined && (at + 1 == list->count || !world_can_join(list->at[at], list->at[at + 1])))
        return WRONG;
    struct world after = *world;
    enum move move = world_one(&after, rank, list->at[at]);
    if (move == MOVED && joined)
        move = world_one(&after, rank, list->at[at + 1]);
    if (move == MOVED) {
        after.at[rank] += 1 + joined;
        *world = after;
    }
    return move;
}

// Whether all is done, once, and nothing is under way.
static inline bool world_is_complete(const struct world *world)
{
    const struct schedule *schedule = world->schedule;
    bool any_step = false, any_reduce = false, good = true, any_back = schedule->ranks == 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        good &= world->at[rank] == list->count;
        for (size_t k = 0; k < list->count; k++) {
            const unsigned kind = list->at[k].kind;
            any_step |= kind == ACTION_STEP;
            any_reduce |= kind == ACTION_REDUCE;
            any_back |= kind != ACTION_F && kind != ACTION_SEND_F && kind != ACTION_RECV_F;
        }
    }
    for (uint32_t s = 0; s < schedule->stages; s++) {
        const bool reduces = any_back && (any_step || any_reduce) && world_copies(world, s) > 1;
        for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
            const bool here = world->used[rank][s] || (reduces && world_holds(world, rank, s));
            good &= !any_step || !here || world->steps[rank][s] == 1;
            good &= !reduces || !world_holds(world, rank, s) || world->reduces[rank][s] == 1;
        }
        for (uint32_t i = 0; i < schedule->micro_batches * schedule->splits; i++) {
            const uint32_t micro_batch = i / schedule->splits;
            good &= world->f[s][i] == 1;
            good &= !any_back || (world->b[s][i] + world->i[s][i] == 1 && world->i[s][i] == world->w[s][i]);
            const bool crosses = s + 1 < schedule->stages
                              && world_home(world, s, micro_batch) != world_home(world, s + 1, micro_batch);
            if (schedule->lowered && crosses)
                good &= world->got[0][s + 1][i] && (!any_back || world->got[1][s][i]);
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
