#include "schedules/standstill.h"

#include <stdio.h>
#include <string.h>

struct action action_mirror(struct action action)
{
    static const uint8_t mirror[ACTION_KINDS] = {
        [ACTION_SEND_F] = ACTION_RECV_F,
        [ACTION_RECV_F] = ACTION_SEND_F,
        [ACTION_SEND_B] = ACTION_RECV_B,
        [ACTION_RECV_B] = ACTION_SEND_B,
    };
    const bool up = action.kind == ACTION_SEND_F || action.kind == ACTION_RECV_B;
    action.stage = (uint16_t)(up ? action.stage + 1 : action.stage - 1);
    action.kind = mirror[action.kind];
    return action;
}

// What a rank waits for, and the rank on which that is.
struct need {
    struct action standing;  // the action that waits; in a group, the first that does
    struct action action;
    uint32_t rank;
};

// What an action waits for: the other end of a message. For a computation's input this is its SEND in a lowered
// schedule, and the computation that makes it in a compute order.
static struct need need_of_action(const struct schedule *schedule, struct action action)
{
    struct need need = { .standing = action };
    if (is_message(action)) {
        need.action = action_mirror(action);
    } else {
        need.action = action_needed_by(action);
        if (schedule->lowered)
            need.action.kind = action.kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B;
    }
    need.action.joined = 0;
    need.rank = schedule_rank(schedule, need.action.stage, need.action.micro_batch);
    return need;
}

static bool has_done(const struct schedule *schedule, const size_t *positions, const struct need *need)
{
    const struct action *list = schedule->lists[need->rank].at;
    for (size_t i = positions[need->rank]; i-- > 0;) {
        const bool same_kind = list[i].kind == need->action.kind || (is_backward(list[i]) && is_backward(need->action));
        if (same_kind && list[i].stage == need->action.stage && list[i].micro_batch == need->action.micro_batch
            && list[i].split == need->action.split)
            return true;
    }
    return false;
}

// The first action of a group that waits.
static struct need need_of_group(const struct schedule *schedule, const size_t *positions, const struct action *group,
                                 size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (!needs_message(schedule, group[i]))
            continue;
        const struct need need = need_of_action(schedule, group[i]);
        if (!has_done(schedule, positions, &need))
            return need;
    }
    return need_of_action(schedule, group[size - 1]);
}

// Another copy of the stage, which has not reached its REDUCE.
static struct need need_of_reduce(const struct schedule *schedule, const size_t *positions, struct action reduce,
                                  uint32_t waiting)
{
    struct need need = { reduce, reduce, waiting };
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        const uint32_t rank = schedule->routes[(size_t)route * schedule->stages + reduce.stage];
        const struct action_list *list = &schedule->lists[rank];
        const struct action *action = list->at + positions[rank];
        if (rank != waiting
            && (action == list_end(list) || action->kind != ACTION_REDUCE || action->stage != reduce.stage)) {
            need.rank = rank;
            break;
        }
    }
    return need;
}

static struct need need_of(const struct schedule *schedule, const size_t *positions, uint32_t rank)
{
    const struct action_list *list = &schedule->lists[rank];
    const struct action *group = list->at + positions[rank];
    if (group->kind == ACTION_REDUCE)
        return need_of_reduce(schedule, positions, *group, rank);
    return need_of_group(schedule, positions, group, group_size(group, list_end(list)));
}

static bool has_finished(const struct schedule *schedule, const size_t *positions, uint32_t rank)
{
    return positions[rank] == schedule->lists[rank].count;
}

// Follows the waiting from the first rank that has not finished. After as many steps as there are ranks, the current
// rank is on a cycle, unless a rank has finished.
static uint32_t follow(const struct schedule *schedule, const size_t *positions)
{
    uint32_t rank = 0;
    while (has_finished(schedule, positions, rank))
        rank++;
    for (uint32_t step = 0; step < schedule->ranks; step++) {
        const uint32_t next = need_of(schedule, positions, rank).rank;
        if (has_finished(schedule, positions, next))
            return rank;
        rank = next;
    }
    uint32_t lowest = rank;
    for (uint32_t other = need_of(schedule, positions, rank).rank; other != rank;
         other = need_of(schedule, positions, other).rank)
        lowest = other < lowest ? other : lowest;
    return lowest;
}

struct standstill standstill_find(const struct schedule *schedule, const size_t *positions)
{
    struct standstill found = { .rank = follow(schedule, positions) };
    const struct need need = need_of(schedule, positions, found.rank);
    found.position = positions[found.rank];
    found.action = need.standing;
    while (memcmp(&schedule->lists[found.rank].at[found.position], &found.action, sizeof found.action) != 0)
        found.position++;
    char buffer[ACTION_SIZE];
    action_format(need.action, buffer);
    if (has_finished(schedule, positions, need.rank))
        snprintf(found.reason, sizeof found.reason, "it waits for %s, and rank %u ends without it", buffer, need.rank);
    else
        snprintf(found.reason, sizeof found.reason, "it waits for %s of rank %u, which in turn waits for rank %u",
                 buffer, need.rank, need_of(schedule, positions, need.rank).rank);
    return found;
}

void standstill_describe(const struct schedule *schedule, const size_t *positions, uint32_t first, struct text *text)
{
    uint32_t rank = first;
    do {
        const struct need need = need_of(schedule, positions, rank);
        char standing[ACTION_SIZE], needed[ACTION_SIZE];
        text_add(text, "%srank %u waits at %s ", rank == first ? "" : "; ", rank,
                 action_format(need.standing, standing));
        if (is_message(need.standing))
            text_add(text, "%s rank %u",
                     need.standing.kind == ACTION_SEND_F || need.standing.kind == ACTION_SEND_B ? "to" : "from",
                     need.rank);
        else
            text_add(text, "for %s of rank %u", action_format(need.action, needed), need.rank);
        if (has_finished(schedule, positions, need.rank)) {
            text_add(text, "; rank %u has finished", need.rank);
            return;
        }
        rank = need.rank;
    } while (rank != first);
}

bool action_error(uint32_t rank, size_t position, struct action action, const char *reason, struct error *error)
{
    char buffer[ACTION_SIZE];
    return error_set_kind(error, ERROR_ANSWER, "rank %u, position %zu, %s: %s", rank, position,
                          action_format(action, buffer), reason);
}

bool standstill_error(const struct schedule *schedule, const size_t *positions, struct error *error)
{
    const struct standstill found = standstill_find(schedule, positions);
    struct text who = { 0 };
    standstill_describe(schedule, positions, found.rank, &who);
    char buffer[ACTION_SIZE];
    if (text_ok(&who, "what is said of a rank", error))
        error_set_kind(error, ERROR_ANSWER, "rank %u, position %zu, %s: %s (%s)", found.rank, found.position,
                       action_format(found.action, buffer), found.reason, who.data ? who.data : "");
    text_clear(&who);
    return false;
}

bool actions_in_order(const struct schedule *schedule, bool lowered, struct error *error)
{
    struct board board;
    if (!board_create(&board, schedule, lowered, error))
        return false;
    bool good = true;
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        char reason[REASON_SIZE];
        for (size_t i = 0; good && i < list->count; i++)
            good = board_place(&board, rank, list->at[i], reason)
                || action_error(rank, i, list->at[i], reason, error);
    }
    board_clear(&board);
    return good;
}
