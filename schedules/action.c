// Actions as text: stage, kind, micro-batch, and the split after a dot.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "schedules/schedule.h"

// By enum action_kind.
static const char *const kind_names[ACTION_KINDS] = {
    "F", "B", "I", "W", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE", "STEP",
};

// REDUCE and STEP belong to a stage; everything else to one of its micro-batches.
static bool has_micro_batch(unsigned kind)
{
    return kind != ACTION_REDUCE && kind != ACTION_STEP;
}

const char *action_format(struct action action, char *buffer)
{
    assert(action.kind < ACTION_KINDS);

    int used = snprintf(buffer, ACTION_SIZE, "%u%s", (unsigned)action.stage, kind_names[action.kind]);
    if (action.micro_batch != NO_MICRO_BATCH)
        used += snprintf(buffer + used, (size_t)(ACTION_SIZE - used), "%u", action.micro_batch);
    if (action.split)
        snprintf(buffer + used, (size_t)(ACTION_SIZE - used), ".%u", (unsigned)action.split);
    return buffer;
}

// Takes a number off the front of the token. False when there is none, when it
// has a leading zero (there is one way to write an action), or exceeds `most`.
static bool take_number(const char **at, const char *end, uint32_t most, uint32_t *number)
{
    const char *first = *at;
    uint64_t value = 0;
    while (*at < end && **at >= '0' && **at <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    if (*at == first || value > most || (*first == '0' && *at > first + 1))
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool take_kind(const char **at, const char *end, uint8_t *kind)
{
    const char *first = *at;
    while (*at < end && (**at < '0' || **at > '9'))
        (*at)++;
    const size_t length = (size_t)(*at - first);
    for (unsigned i = 0; i < ACTION_KINDS; i++) {
        if (strlen(kind_names[i]) == length && memcmp(kind_names[i], first, length) == 0) {
            *kind = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static bool take_action(const char *at, const char *end, struct action *action)
{
    uint32_t stage, split = 0;
    *action = (struct action){ .micro_batch = NO_MICRO_BATCH };
    if (!take_number(&at, end, UINT16_MAX, &stage) || !take_kind(&at, end, &action->kind))
        return false;
    action->stage = (uint16_t)stage;
    if (at == end)
        return !has_micro_batch(action->kind);
    if (!take_number(&at, end, NO_MICRO_BATCH - 1, &action->micro_batch))
        return false;
    if (at < end && *at == '.' && has_micro_batch(action->kind)) {
        at++;
        if (!take_number(&at, end, UINT8_MAX, &split) || split == 0)
            return false;
    }
    action->split = (uint8_t)split;
    return at == end;
}

bool action_parse(const char *token, size_t length, struct action *action, struct error *error)
{
    if (take_action(token, token + length, action))
        return true;
    return error_set(error, "\"%.*s\" is not an action such as 2F0, 1SEND_B3, 2F0.1 or 0STEP",
                     (int)(length < 40 ? length : 40), token);
}
