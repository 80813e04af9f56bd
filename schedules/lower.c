#include "schedules/lower.h"

#include <assert.h>
#include <stdlib.h>

#include "schedules/rank_heap.h"
#include "schedules/standstill.h"
#include "schedules/walk.h"

// The ranks take turns, round after round, the lowest first. A rank that waits has no
// turn until it can go on: then in this round, if its turn is still to come.
struct lowering {
    struct walk walk;
    struct schedule *lowered;
    struct rank_heap turns;  // of ranks that can go on, by round
};

// A copy of all but the lists.
static struct schedule *copy_without_lists(const struct schedule *order, struct error *error)
{
    struct schedule *copy = schedule_copy(order, error);
    for (uint32_t rank = 0; copy && rank < copy->ranks; rank++)
        copy->lists[rank].count = 0;
    return copy;
}

// The SEND behind what has made the message, and in the same moment the RECV at the
// end of the peer's list.
static bool add_message(struct lowering *lowering, const struct visit *visit, struct error *error)
{
    struct action send = visit->action;
    send.kind = visit->back ? ACTION_SEND_B : ACTION_SEND_F;
    send.joined = 0;
    const uint32_t peer = (visit->back ? visit->seat - 1 : visit->seat + 1)->rank;
    return schedule_add(lowering->lowered, visit->rank, send, error)
        && schedule_add(lowering->lowered, peer, action_mirror(send), error);
}

// Gives a rank a turn in this round or later, if it can go on.
static void enter(struct lowering *lowering, uint32_t rank, uint64_t round)
{
    struct visit visit;
    if (walk_look(&lowering->walk, rank, &visit) == LOOK_READY)
        rank_heap_push(&lowering->turns, rank, round);
}

// The same for a rank that another lets go on in its turn.
static void wake(struct lowering *lowering, uint32_t rank, uint32_t by, uint64_t round)
{
    enter(lowering, rank, rank > by ? round : round + 1);
}

static bool place(struct lowering *lowering, uint32_t rank, struct visit *visit, struct error *error)
{
    return walk_look(&lowering->walk, rank, visit) == LOOK_READY && walk_place(&lowering->walk, visit)
        && schedule_add(lowering->lowered, rank, visit->action, error);
}

// A REDUCE in the lists of all copies, which stand there.
static bool place_reduce(struct lowering *lowering, const struct visit *first, uint64_t round, struct error *error)
{
    const struct copies *copies = &lowering->walk.board.copies;
    const uint32_t stage = first->action.stage;
    bool good = true;
    for (uint32_t copy = copies->first[stage]; good && copy < copies->first[stage + 1]; copy++) {
        const uint32_t rank = copies->ranks[copy];
        struct visit visit;
        if (rank == first->rank)
            continue;
        good = place(lowering, rank, &visit, error);
        if (good)
            wake(lowering, rank, first->rank, round);
    }
    return good;
}

static bool take_turn(struct lowering *lowering, uint32_t rank, uint64_t round, struct error *error)
{
    struct visit visits[MOST_JOINED];
    size_t count = 0;
    do {
        if (!place(lowering, rank, &visits[count], error))
            return false;
    } while (visits[count++].action.joined);
    for (size_t i = 0; i < count; i++) {
        if (visits[i].gives && !add_message(lowering, &visits[i], error))
            return false;
        if (visits[i].woken != NO_RANK)
            wake(lowering, visits[i].woken, rank, round);
    }
    if (visits[0].action.kind == ACTION_REDUCE && !place_reduce(lowering, &visits[0], round, error))
        return false;
    // PyTorch has no VALIDATE: it takes no turn, so that messages stand where they would stand without it.
    enter(lowering, rank, visits[0].action.kind == ACTION_VALIDATE ? round : round + 1);
    return true;
}

static bool place_all(struct lowering *lowering, struct error *error)
{
    const struct schedule *order = lowering->walk.schedule;
    struct rank_heap *turns = &lowering->turns;
    turns->ranks = calloc(order->ranks, sizeof *turns->ranks);
    turns->moments_ns = calloc(order->ranks, sizeof *turns->moments_ns);
    bool good = (turns->ranks && turns->moments_ns) || error_no_memory(error, "lowering a schedule");
    for (uint32_t rank = 0; good && rank < order->ranks; rank++)
        enter(lowering, rank, 0);
    while (good && !lowering->walk.refused && turns->count > 0) {
        const uint32_t rank = rank_heap_pop(turns);
        good = take_turn(lowering, rank, turns->moments_ns[rank], error) || lowering->walk.refused;
    }
    free(turns->ranks);
    free(turns->moments_ns);
    return good && walk_end(&lowering->walk, error);
}

struct schedule *schedule_lower_to(const struct schedule *order, size_t *positions, struct error *error)
{
    assert(!order->lowered);

    struct lowering lowering = { .lowered = copy_without_lists(order, error) };
    if (!lowering.lowered)
        return NULL;
    const bool good = walk_create(&lowering.walk, order, error) && place_all(&lowering, error);
    for (uint32_t rank = 0; lowering.walk.cursors && rank < order->ranks; rank++)
        positions[rank] = (size_t)(lowering.walk.cursors[rank].at - order->lists[rank].at);
    walk_clear(&lowering.walk);
    lowering.lowered->lowered = true;
    if (good)
        return lowering.lowered;
    schedule_free(lowering.lowered);
    return NULL;
}

struct schedule *schedule_lower(const struct schedule *order, struct error *error)
{
    size_t *positions = calloc(order->ranks, sizeof *positions);
    if (!positions) {
        error_no_memory(error, "lowering a schedule");
        return NULL;
    }
    struct schedule *lowered = schedule_lower_to(order, positions, error);
    free(positions);
    return lowered;
}
