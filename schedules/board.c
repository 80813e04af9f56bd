#include "schedules/board.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/large.h"

bool board_create(struct board *board, const struct schedule *schedule, bool lowered, struct error *error)
{
    *board = (struct board){ .schedule = schedule, .lowered = lowered };
    board->units = large_calloc(unit_count(schedule), sizeof *board->units);
    if (!board->units)
        return error_no_memory(error, "the state of a schedule");
    if (copies_create(&board->copies, schedule, error))
        return true;
    board_clear(board);
    return false;
}

void board_clear(struct board *board)
{
    copies_clear(&board->copies);
    free(board->units);
    board->units = NULL;
}

__attribute__((format(printf, 2, 3))) static bool refuse(char reason[REASON_SIZE], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, REASON_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

// Gives reasons such as "it comes before 1F0"; `kind` is of the same stage and micro-batch.
static bool refuse_before(char reason[REASON_SIZE], struct action action, enum action_kind kind)
{
    char buffer[ACTION_SIZE];
    action.kind = (uint8_t)kind;
    return refuse(reason, "it comes before %s", action_format(action, buffer));
}

bool schedule_is_forward_only(const struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (const struct action *action = list->at; action < list_end(list); action++) {
            if (action->kind != ACTION_F && action->kind != ACTION_SEND_F && action->kind != ACTION_RECV_F)
                return false;
        }
    }
    return true;
}

bool group_fits(const struct action *group, size_t size, char reason[REASON_SIZE])
{
    const struct action a = group[0], b = group[size - 1];
    if (size != 2 || !((a.kind == ACTION_F && is_backward(b)) || (is_backward(a) && b.kind == ACTION_F)))
        return refuse(reason, "one F and one B or I can be done together, nothing else");
    if (a.stage == b.stage && a.micro_batch == b.micro_batch)
        return refuse(reason, "micro-batch %u cannot go forward and backward on stage %u at once", a.micro_batch,
                      (unsigned)a.stage);
    return true;
}

bool board_in_range(const struct board *board, uint32_t rank, struct action action, char reason[REASON_SIZE])
{
    const struct schedule *schedule = board->schedule;
    if (action.stage >= schedule->stages)
        return refuse(reason, "there is no stage %u (0 to %u)", (unsigned)action.stage, schedule->stages - 1);
    if (!has_unit(action)) {
        return copies_find(&board->copies, action.stage, rank) != NO_COPY
            || refuse(reason, "stage %u is not on rank %u", (unsigned)action.stage, rank);
    }
    if (action.micro_batch >= schedule->micro_batches)
        return refuse(reason, "there is no micro-batch %u (0 to %u)", action.micro_batch,
                      schedule->micro_batches - 1);
    if (action.split >= schedule->splits)
        return refuse(reason, "there is no split %u (0 to %u)", (unsigned)action.split, schedule->splits - 1);
    const uint32_t home = schedule_rank(schedule, action.stage, action.micro_batch);
    return home == rank
        || refuse(reason, "stage %u of micro-batch %u belongs on rank %u", (unsigned)action.stage,
                  action.micro_batch, home);
}

// Whether the neighbouring split has done the same: the split before, for a forward; the split after, for a
// backward.
static bool chain_is_there(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    const bool forward = action.kind == ACTION_F;
    if (action.split == (forward ? 0 : board->schedule->splits - 1))
        return true;
    if (forward)
        action.split--;
    else
        action.split++;
    return board_has(board, action, forward ? DID_F : DID_BACKWARD) || refuse_before(reason, action, action.kind);
}

// Whether the input of an F, or the gradient for a B or I, is there. It comes from a neighbour on this rank, which
// must have been first, or by a RECV if the schedule contains RECVs.
static bool input_is_there(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    const bool forward = action.kind == ACTION_F;
    if (!chain_is_there(board, action, reason))
        return false;
    if (action.stage == (forward ? 0 : board->schedule->stages - 1))
        return true;
    const struct action needed = action_needed_by(action);
    if (!needs_message(board->schedule, action))
        return board_has(board, needed, forward ? DID_F : DID_BACKWARD) || refuse_before(reason, needed, needed.kind);
    const enum action_kind receive = forward ? ACTION_RECV_F : ACTION_RECV_B;
    return !board->lowered || board_has(board, action, 1u << receive) || refuse_before(reason, action, receive);
}

static bool refuse_second_backward(struct action action, char reason[REASON_SIZE])
{
    return refuse(reason, "micro-batch %u has had its backward on stage %u", action.micro_batch,
                  (unsigned)action.stage);
}

// Whether what F kept is on the device, for the first action that runs the backward or a part of it.
static bool kept_is_there(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    if (board_has(board, action, DID_BACKWARD))
        return refuse_second_backward(action, reason);
    if (!board_has(board, action, DID_F))
        return refuse_before(reason, action, ACTION_F);
    return !board_has(board, action, DID_EVICT) || board_has(board, action, DID_PREFETCH)
        || refuse_before(reason, action, ACTION_PREFETCH);
}

static bool move_may_come(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    if (action.kind == ACTION_PREFETCH)
        return board_has(board, action, DID_EVICT) || refuse_before(reason, action, ACTION_EVICT);
    return kept_is_there(board, action, reason)
        && (!board_has(board, action, DID_R) || refuse(reason, "its forward was run again already"));
}

static bool send_may_come(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    const bool forward = action.kind == ACTION_SEND_F;
    const struct schedule *schedule = board->schedule;
    if (forward ? !crosses_after(schedule, action.stage, action.micro_batch)
                : !crosses_before(schedule, action.stage, action.micro_batch))
        return refuse(reason, "stage %u has no neighbour on another rank to send to", (unsigned)action.stage);
    if (!board_has(board, action, forward ? DID_F : DID_BACKWARD))
        return refuse_before(reason, action, forward ? ACTION_F : ACTION_B);
    return true;
}

static bool receive_may_come(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    const bool forward = action.kind == ACTION_RECV_F;
    const struct schedule *schedule = board->schedule;
    if (forward ? !crosses_before(schedule, action.stage, action.micro_batch)
                : !crosses_after(schedule, action.stage, action.micro_batch))
        return refuse(reason, "stage %u has no neighbour on another rank to receive from", (unsigned)action.stage);
    return true;
}

static bool may_come(const struct board *board, struct action action, char reason[REASON_SIZE])
{
    switch (action.kind) {
    case ACTION_F:
        return input_is_there(board, action, reason);
    case ACTION_B:
    case ACTION_I:
        return kept_is_there(board, action, reason) && input_is_there(board, action, reason);
    case ACTION_W:
        if (board_has(board, action, 1u << ACTION_B))
            return refuse_second_backward(action, reason);
        return board_has(board, action, 1u << ACTION_I) || refuse_before(reason, action, ACTION_I);
    case ACTION_R:
        return kept_is_there(board, action, reason);
    case ACTION_EVICT:
    case ACTION_PREFETCH:
        return move_may_come(board, action, reason);
    case ACTION_SEND_F:
    case ACTION_SEND_B:
        return send_may_come(board, action, reason);
    default:
        return receive_may_come(board, action, reason);
    }
}

bool board_add(struct board *board, struct action action, char reason[REASON_SIZE])
{
    if (!has_unit(action))
        return true;
    uint16_t *unit = &board->units[unit_of(board->schedule, action)];
    const uint16_t bit = (uint16_t)(1u << action.kind);
    if (*unit & bit)
        return refuse(reason, "it is there for the second time");
    if (!may_come(board, action, reason))
        return false;
    *unit |= bit;
    return true;
}

bool board_place(struct board *board, uint32_t rank, struct action action, char reason[REASON_SIZE])
{
    return board_in_range(board, rank, action, reason) && board_add(board, action, reason);
}
