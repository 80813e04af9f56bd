#include <stdlib.h>

#include "schedules/pictures/trace_events.h"

static int compare_by_action(const void *a, const void *b)
{
    const struct trace_action *x = a, *y = b;
#define COMPARE(u, v) \
    if ((u) != (v))   \
    return (u) < (v) ? -1 : 1
    COMPARE(x->process, y->process);
    COMPARE(x->action.stage, y->action.stage);
    COMPARE(x->action.kind, y->action.kind);
    COMPARE(x->action.micro_batch, y->action.micro_batch);
    COMPARE(x->action.split, y->action.split);
    COMPARE(x->start_ns, y->start_ns);
    COMPARE(x->length_ns, y->length_ns);
    return 0;
}

static int compare_by_time(const void *a, const void *b)
{
    const struct trace_action *x = a, *y = b;
    COMPARE(x->process, y->process);
    COMPARE(x->start_ns, y->start_ns);
    COMPARE(x->length_ns, y->length_ns);
    return compare_by_action(a, b);
#undef COMPARE
}

static void sort(struct trace_reader *reader, int (*compare)(const void *, const void *))
{
    if (reader->action_count > 0)
        qsort(reader->actions, reader->action_count, sizeof *reader->actions, compare);
}

void trace_sort_by_action(struct trace_reader *reader)
{
    sort(reader, compare_by_action);
}

void trace_sort_by_time(struct trace_reader *reader)
{
    sort(reader, compare_by_time);
}

static int compare_to_find(const void *a, const void *b)
{
    const struct trace_action *x = a, *y = b;
    struct trace_action moved = *x;
    moved.start_ns = y->start_ns;
    moved.length_ns = y->length_ns;
    const int order = compare_by_action(&moved, y);
    return order ? order : (x->iteration > y->iteration) - (x->iteration < y->iteration);
}

const struct trace_action *trace_find_action(const struct trace_reader *reader, const struct trace_action *action,
                                             struct action sought)
{
    struct trace_action key = *action;
    key.action = sought;
    return bsearch(&key, reader->actions, reader->action_count, sizeof *reader->actions, compare_to_find);
}
