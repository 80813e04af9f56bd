#include "schedules/lower.h"

#include <assert.h>
#include <stdlib.h>

#include "schedules/standstill.h"

// The walk: each rank stands at its next action; the board knows what has been
// placed, and has a RECV's bit as soon as the message's SEND is placed.
struct walk {
    const struct schedule *order;
    struct schedule *lowered;
    struct board board;
    size_t *next;
};

static bool is_ready(const struct walk *walk, struct action action)
{
    const unsigned receive = action.kind == ACTION_F ? DID_RECV_F : DID_RECV_B;
    return !needs_message(walk->order, action) || board_has(&walk->board, action.stage, action.micro_batch, receive);
}

// The SEND behind the action that makes the message, and in the same moment the
// RECV at the end of the peer's list.
static bool add_message(struct walk *walk, uint32_t rank, struct action action, struct error *error)
{
    struct action send = action;
    send.kind = action.kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B;
    const struct action receive = action_mirror(send);
    const uint32_t peer = schedule_rank(walk->order, receive.stage, receive.micro_batch);
    walk->board.units[unit_index(walk->order, receive.stage, receive.micro_batch)] |= (uint16_t)(1u << receive.kind);
    return schedule_add(walk->lowered, rank, send, error) && schedule_add(walk->lowered, peer, receive, error);
}

enum step { STEP_WAITS, STEP_PLACED, STEP_FAILED };

static enum step place_next(struct walk *walk, uint32_t rank, struct error *error)
{
    const struct action action = walk->order->lists[rank].at[walk->next[rank]];
    char reason[REASON_SIZE];

    // Whether something is ready is a question about a stage that is here.
    if (board_in_range(&walk->board, rank, action, reason) && !is_ready(walk, action))
        return STEP_WAITS;
    if (!board_place(&walk->board, rank, action, reason)) {
        action_error(rank, walk->next[rank], action, reason, error);
        return STEP_FAILED;
    }
    if (!schedule_add(walk->lowered, rank, action, error))
        return STEP_FAILED;
    walk->next[rank]++;
    const bool has_unit = action.kind != ACTION_STEP && action.kind != ACTION_REDUCE;
    if (has_unit && makes_message(walk->order, action) && !add_message(walk, rank, action, error))
        return STEP_FAILED;
    return STEP_PLACED;
}

// Turns around the ranks, one action each, until all lists are done.
static bool place_all(struct walk *walk, struct error *error)
{
    bool moved = true, left = true;
    while (left) {
        if (!moved)
            return standstill_error(walk->order, walk->next, error);
        moved = left = false;
        for (uint32_t rank = 0; rank < walk->order->ranks; rank++) {
            if (walk->next[rank] == walk->order->lists[rank].count)
                continue;
            const enum step step = place_next(walk, rank, error);
            if (step == STEP_FAILED)
                return false;
            moved |= step == STEP_PLACED;
            left = true;
        }
    }
    return true;
}

// A copy of all but the lists.
static struct schedule *copy_without_lists(const struct schedule *order, struct error *error)
{
    struct schedule *copy = schedule_copy(order, error);
    for (uint32_t rank = 0; copy && rank < copy->ranks; rank++)
        copy->lists[rank].count = 0;
    return copy;
}

struct schedule *schedule_lower_to(const struct schedule *order, size_t *positions, struct error *error)
{
    assert(!order->lowered);

    struct walk walk = { .order = order, .next = positions, .lowered = copy_without_lists(order, error) };
    if (!walk.lowered)
        return NULL;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        positions[rank] = 0;
    const bool good = board_create(&walk.board, order, false, error) && place_all(&walk, error);
    board_clear(&walk.board);
    walk.lowered->lowered = true;
    if (good)
        return walk.lowered;
    schedule_free(walk.lowered);
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
