#include "schedules/lower_late.h"

#include <assert.h>

#include "schedules/board.h"
#include "schedules/lower.h"

static struct action message_of(struct action action, enum action_kind kind)
{
    action.kind = (uint8_t)kind;
    action.joined = 0;
    return action;
}

// Adds a group's RECVs, the group, and its SENDs.
static bool lower_group(const struct schedule *order, struct schedule *lowered, uint32_t rank,
                        const struct action *group, size_t size, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && i < size; i++) {
        if (needs_message(order, group[i]))
            good = schedule_add(lowered, rank,
                                message_of(group[i], group[i].kind == ACTION_F ? ACTION_RECV_F : ACTION_RECV_B), error);
    }
    for (size_t i = 0; good && i < size; i++)
        good = lower_add(lowered, rank, group[i], error);
    for (size_t i = 0; good && i < size; i++) {
        if (makes_message(order, group[i]))
            good = schedule_add(lowered, rank,
                                message_of(group[i], group[i].kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B), error);
    }
    return good;
}

static bool lower_list(const struct schedule *order, struct schedule *lowered, uint32_t rank, struct error *error)
{
    const struct action_list *list = &order->lists[rank];
    const struct action *end = list_end(list);
    size_t size;
    for (const struct action *group = list->at; group < end; group += size) {
        size = group_size(group, end);
        if (!lower_group(order, lowered, rank, group, size, error))
            return false;
    }
    return true;
}

struct schedule *schedule_lower_late(const struct schedule *order, struct error *error)
{
    assert(!order->lowered);

    struct schedule *lowered = schedule_copy(order, error);
    bool good = lowered != NULL;
    for (uint32_t rank = 0; good && rank < order->ranks; rank++) {
        lowered->lists[rank].count = 0;
        good = lower_list(order, lowered, rank, error);
    }
    if (!good) {
        schedule_free(lowered);
        return NULL;
    }
    lowered->lowered = true;
    return lowered;
}

struct schedule *schedule_without_messages(const struct schedule *lowered, struct error *error)
{
    struct schedule *order = schedule_copy(lowered, error);
    if (order)
        schedule_drop(order, KINDS_OF_MESSAGES);
    return order;
}
