// Actions as text: stage, kind, micro-batch, and the split after a dot.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "schedules/schedule.h"

// Indexed by enum action_kind.
static const char *const kind_names[ACTION_KINDS] = {
    "F", "B", "I", "W", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "EVICT", "PREFETCH",
    "REDUCE", "STEP", "VALIDATE",
};

// REDUCE, STEP and VALIDATE belong to a stage, all other actions to one of its micro-batches.
static bool has_micro_batch(unsigned kind)
{
    return kind < ACTION_REDUCE;
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

// Takes a number off the front of the token. Returns false if there is none, if it has a leading zero (an action can
// be written in only one way), or if it exceeds `most`.
static bool take_number(const char **cursor, const char *end, uint32_t most, uint32_t *number)
{
    const char *first = *cursor;
    uint64_t value = 0;
    while (*cursor < end && **cursor >= '0' && **cursor <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*(*cursor)++ - '0');
    if (*cursor == first || value > most || (*first == '0' && *cursor > first + 1))
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool take_kind(const char **cursor, const char *end, uint8_t *kind)
{
    const char *first = *cursor;
    while (*cursor < end && (**cursor < '0' || **cursor > '9'))
        (*cursor)++;
    const size_t length = (size_t)(*cursor - first);
    for (unsigned i = 0; i < ACTION_KINDS; i++) {
        if (strlen(kind_names[i]) == length && memcmp(kind_names[i], first, length) == 0) {
            *kind = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static bool take_action(const char *cursor, const char *end, struct action *action)
{
    uint32_t stage, split = 0;
    *action = (struct action){ .micro_batch = NO_MICRO_BATCH };
    if (!take_number(&cursor, end, UINT16_MAX, &stage) || !take_kind(&cursor, end, &action->kind))
        return false;
    action->stage = (uint16_t)stage;
    if (cursor == end)
        return !has_micro_batch(action->kind);
    if (!take_number(&cursor, end, NO_MICRO_BATCH - 1, &action->micro_batch))
        return false;
    if (cursor < end && *cursor == '.' && has_micro_batch(action->kind)) {
        cursor++;
        if (!take_number(&cursor, end, MOST_SPLITS - 1, &split) || split == 0)
            return false;
    }
    action->split = split & 0x7f;
    return cursor == end;
}

bool action_parse(const char *token, size_t length, struct action *action, struct error *error)
{
    if (take_action(token, token + length, action))
        return true;
    return error_set(error, "\"%.*s\" is not an action such as 2F0, 1SEND_B3, 2F0.1 or 0STEP",
                     (int)(length < 40 ? length : 40), token);
}

// --- groups -------------------------------------------------------------------

static const char overlap[] = "OVERLAP_F_B";

void group_write(const struct action *group, size_t size, struct text *text)
{
    char buffer[ACTION_SIZE];
    if (size == 1) {
        text_add(text, "%s", action_format(*group, buffer));
        return;
    }
    for (size_t i = 0; i < size; i++)
        text_add(text, "%c%s", i ? ';' : '(', action_format(group[i], buffer));
    text_add(text, ")%s", overlap);
}

// Reads the actions between the brackets, which semicolons separate.
static size_t take_group(const char *cursor, const char *end, struct action group[MOST_JOINED])
{
    for (size_t size = 0; size < MOST_JOINED; size++) {
        const char *semicolon = memchr(cursor, ';', (size_t)(end - cursor));
        if (!take_action(cursor, semicolon ? semicolon : end, &group[size]))
            return 0;
        group[size].joined = semicolon != NULL;
        if (!semicolon)
            return size + 1;
        cursor = semicolon + 1;
    }
    return 0;
}

size_t group_parse(const char *token, size_t length, struct action group[MOST_JOINED], struct error *error)
{
    const size_t tail = sizeof overlap;  // the bracket replaces the NUL
    if (length == 0 || token[0] != '(')
        return action_parse(token, length, &group[0], error);
    size_t size = 0;
    if (length > tail + 1 && token[length - tail] == ')' && memcmp(token + length - tail + 1, overlap, tail - 1) == 0)
        size = take_group(token + 1, token + length - tail, group);
    if (size < 2) {
        error_set(error, "\"%.*s\" is not a group such as (0F7;7B3)OVERLAP_F_B", (int)(length < 60 ? length : 60),
                  token);
        return 0;
    }
    return size;
}
