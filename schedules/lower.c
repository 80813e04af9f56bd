#include "schedules/lower.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/standstill.h"
#include "schedules/walk.h"

// The ranks take turns in rounds, the lowest rank first. A rank that waits has no turn until it can continue. It
// then gets one in this round if its turn is still to come.
struct turns {
    uint64_t *now, *next;  // a bit for each rank that has a turn in this round, or in the next
    uint32_t words;
    uint32_t at;     // no bit of `now` is set in the words before this one
    uint32_t count;  // number of bits in both
};

struct lowering {
    struct walk walk;
    struct schedule *lowered;
    struct turns turns;
};

static bool turns_create(struct turns *turns, uint32_t ranks, struct error *error)
{
    turns->words = (ranks + 63) / 64;
    turns->now = calloc(turns->words, sizeof *turns->now);
    turns->next = calloc(turns->words, sizeof *turns->next);
    return (turns->now && turns->next) || error_no_memory(error, "lowering a schedule");
}

static void turns_clear(struct turns *turns)
{
    free(turns->now);
    free(turns->next);
}

static void turns_give(struct turns *turns, uint32_t rank, bool in_this_round)
{
    (in_this_round ? turns->now : turns->next)[rank / 64] |= UINT64_C(1) << rank % 64;
    turns->count++;
}

// Returns the rank whose turn it is; there must be one.
static uint32_t turns_take(struct turns *turns)
{
    while (turns->now[turns->at] == 0) {
        if (++turns->at < turns->words)
            continue;
        uint64_t *over = turns->now;
        turns->now = turns->next;
        turns->next = over;
        turns->at = 0;
    }
    const uint32_t rank = turns->at * 64 + (uint32_t)__builtin_ctzll(turns->now[turns->at]);
    turns->now[turns->at] &= turns->now[turns->at] - 1;
    turns->count--;
    return rank;
}

// A copy of everything except the lists.
static struct schedule *copy_without_lists(const struct schedule *order, struct error *error)
{
    struct schedule *copy = schedule_copy(order, error);
    for (uint32_t rank = 0; copy && rank < copy->ranks; rank++)
        copy->lists[rank].count = 0;
    return copy;
}

// Adds the SEND behind the action that made the message, and at the same time the RECV at the end of the peer's
// list.
static bool add_message(struct lowering *lowering, const struct visit *visit, struct error *error)
{
    struct action send = *visit->at;
    send.kind = visit->back ? ACTION_SEND_B : ACTION_SEND_F;
    send.joined = 0;
    const uint32_t peer = (visit->back ? visit->seat - 1 : visit->seat + 1)->rank;
    return schedule_add(lowering->lowered, visit->rank, send, error)
        && schedule_add(lowering->lowered, peer, action_mirror(send), error);
}

bool lower_add(struct schedule *lowered, uint32_t rank, struct action action, struct error *error)
{
    struct action_list *list = &lowered->lists[rank];
    if (!schedule_add(lowered, rank, action, error))
        return false;
    size_t position = list->count - 1;
    while (is_move(action) && position > 0 && is_message(list->at[position - 1]))
        position--;
    memmove(&list->at[position + 1], &list->at[position], (list->count - 1 - position) * sizeof action);
    list->at[position] = action;
    return true;
}

// Gives a rank a turn if it can continue.
static void enter(struct lowering *lowering, uint32_t rank, bool in_this_round)
{
    struct visit visit;
    if (walk_look(&lowering->walk, rank, &visit) == LOOK_READY)
        turns_give(&lowering->turns, rank, in_this_round);
}

static bool place(struct lowering *lowering, uint32_t rank, struct visit *visit, struct error *error)
{
    return walk_look(&lowering->walk, rank, visit) == LOOK_READY && walk_place(&lowering->walk, visit)
        && lower_add(lowering->lowered, rank, *visit->at, error);
}

// Places a REDUCE in the lists of all copies, which have all reached it.
static bool place_reduce(struct lowering *lowering, const struct visit *first, struct error *error)
{
    const struct copies *copies = &lowering->walk.board.copies;
    const uint32_t stage = first->at->stage;
    bool good = true;
    for (uint32_t copy = copies->first[stage]; good && copy < copies->first[stage + 1]; copy++) {
        const uint32_t rank = copies->ranks[copy];
        struct visit visit;
        if (rank == first->rank)
            continue;
        good = place(lowering, rank, &visit, error);
        if (good)
            enter(lowering, rank, rank > first->rank);
    }
    return good;
}

static bool take_turn(struct lowering *lowering, uint32_t rank, struct error *error)
{
    struct visit visits[MOST_JOINED];
    size_t count = 0;
    do {
        if (!place(lowering, rank, &visits[count], error))
            return false;
    } while (visits[count++].at->joined);
    for (size_t i = 0; i < count; i++) {
        if (visits[i].gives && !add_message(lowering, &visits[i], error))
            return false;
        if (visits[i].woken != NO_RANK)
            enter(lowering, visits[i].woken, visits[i].woken > rank);
    }
    if (visits[0].at->kind == ACTION_REDUCE && !place_reduce(lowering, &visits[0], error))
        return false;
    // PyTorch has neither VALIDATE nor moves. They take no turn, so messages are placed as if they were not there.
    enter(lowering, rank, visits[0].at->kind == ACTION_VALIDATE || is_move(*visits[0].at));
    return true;
}

static bool place_all(struct lowering *lowering, struct error *error)
{
    const struct schedule *order = lowering->walk.schedule;
    bool good = turns_create(&lowering->turns, order->ranks, error);
    for (uint32_t rank = 0; good && rank < order->ranks; rank++)
        enter(lowering, rank, true);
    while (good && !lowering->walk.refused && lowering->turns.count > 0)
        good = take_turn(lowering, turns_take(&lowering->turns), error) || lowering->walk.refused;
    turns_clear(&lowering->turns);
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
    if (!positions)
        return error_null(error_no_memory(error, "lowering a schedule"));
    struct schedule *lowered = schedule_lower_to(order, positions, error);
    free(positions);
    return lowered;
}
