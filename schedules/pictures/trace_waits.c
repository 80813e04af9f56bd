// Finds waiting inside the events that a trace names as actions. PyTorch's pipelining waits for the input of an
// action within it.
//
//     PP:1F0     [..........|=========]      from its beginning to its end as named
//     gloo:recv  ---------->|                its input arrives: here the action begins
//     operators              ##  ### #
//
// An action waits before it computes. Only receives that end before its first operator therefore matter; one that is
// still under way then is for a later action.
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "schedules/pictures/span_index.h"
#include "schedules/pictures/trace_events.h"

// FNV-1a, which is sufficient since threads are few and their names short.
uint64_t trace_thread(uint32_t file, const char *process, const char *thread)
{
    const char *const names[] = { process, thread };
    uint64_t hash = 0xcbf29ce484222325u ^ file;
    for (int i = 0; i < 2; i++) {
        for (const char *letter = names[i]; *letter; letter++)
            hash = (hash ^ (unsigned char)*letter) * 0x100000001b3u;
        hash = (hash ^ 0xff) * 0x100000001b3u;  // end of a name
    }
    return hash;
}

// Neither allocating memory for data before it arrives nor passing messages counts as work.
static bool is_work(const char *operator)
{
    return strncmp(operator, "aten::empty", 11) != 0 && strncmp(operator, "c10d::", 6) != 0
        && strcmp(operator, "record_param_comms") != 0;
}

enum trace_mark_kind trace_mark_of(const char *category, const char *name)
{
    if (strcmp(category, "cpu_op") == 0)
        return is_work(name) ? MARK_OPERATOR : strncmp(name, "c10d::", 6) == 0 ? MARK_MESSAGE : MARK_NONE;
    return strcmp(category, "user_annotation") == 0 && strstr(name, ":recv") ? MARK_RECEIVED : MARK_NONE;
}

bool trace_mark_add(struct trace_reader *reader, struct trace_mark mark, struct error *error)
{
    if (!array_reserve(&reader->marks, &reader->mark_capacity, reader->mark_count + 1, sizeof mark))
        return error_no_memory(error, "a trace");
    reader->marks[reader->mark_count++] = mark;
    return true;
}

static int compare_marks(const void *a, const void *b)
{
    const struct trace_mark *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

// The first mark of the action's thread that is not before the action.
static const struct trace_mark *find_mark(const struct trace_reader *reader, const struct trace_action *action)
{
    const struct trace_mark key = { .thread = action->thread, .time_ns = action->start_ns };
    size_t first = 0, end = reader->mark_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (compare_marks(&reader->marks[middle], &key) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return reader->marks + first;
}

static void find_wait(const struct trace_reader *reader, struct trace_action *action)
{
    const struct trace_mark *const end = reader->marks + reader->mark_count;
    for (const struct trace_mark *mark = find_mark(reader, action); mark < end; mark++) {
        if (mark->thread != action->thread || mark->time_ns - action->start_ns > action->length_ns)
            break;
        action->idle_ns = mark->time_ns - action->start_ns;
        if (mark->kind == MARK_OPERATOR)
            return;
        action->wait_ns = action->idle_ns;
    }
    action->idle_ns = 0;  // without an operator, it is unknown when it began to work
}

void trace_waits_find(struct trace_reader *reader)
{
    if (reader->mark_count == 0)
        return;
    qsort(reader->marks, reader->mark_count, sizeof reader->marks[0], compare_marks);
    for (size_t i = 0; i < reader->action_count; i++)
        find_wait(reader, &reader->actions[i]);
}

// If a file shows no receives at all, the time before the first operator counts as waiting, for actions that need
// another rank's message.
static uint64_t wait_of(const struct trace_reader *reader, const struct trace_action *action, uint16_t last_stage)
{
    struct action maker;
    if (action->sees_receives || action->in_group || !action_input(action->action, &maker) || maker.stage > last_stage)
        return action->wait_ns;
    bool is_here = trace_find_action(reader, action, maker) != NULL;
    if (maker.kind != ACTION_F) {
        maker.kind = maker.kind == ACTION_B ? ACTION_I : ACTION_B;  // the backward that makes it may be of either kind
        is_here |= trace_find_action(reader, action, maker) != NULL;
    }
    return is_here ? 0 : action->idle_ns;
}

void trace_waits_take_off(struct trace_reader *reader)
{
    uint16_t last_stage = 0;
    for (size_t i = 0; i < reader->action_count; i++)
        last_stage = reader->actions[i].action.stage > last_stage ? reader->actions[i].action.stage : last_stage;
    for (size_t i = 0; i < reader->action_count; i++)
        reader->actions[i].wait_ns = wait_of(reader, &reader->actions[i], last_stage);
    for (size_t i = 0; i < reader->action_count; i++) {
        struct trace_action *action = &reader->actions[i];
        action->start_ns += action->wait_ns;
        action->length_ns -= action->wait_ns;
        if (action->recompute_ns > action->length_ns)
            action->recompute_ns = action->length_ns;
    }
}
