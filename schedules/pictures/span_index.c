#include "schedules/pictures/span_index.h"

#include <stdlib.h>

static unsigned class_of(struct action action)
{
    return action.kind == ACTION_I ? ACTION_B : action.kind;
}

static int compare_actions(struct action a, struct action b)
{
#define COMPARE(x, y) \
    if ((x) != (y))   \
    return (x) < (y) ? -1 : 1
    COMPARE(a.stage, b.stage);
    COMPARE(a.micro_batch, b.micro_batch);
    COMPARE(a.split, b.split);
    COMPARE(class_of(a), class_of(b));
#undef COMPARE
    return 0;
}

bool action_is_alike(struct action a, struct action b)
{
    return compare_actions(a, b) == 0;
}

static struct action computed(const struct message *message)
{
    struct action action = message->action;
    action.kind = action.kind == ACTION_SEND_F ? ACTION_F : ACTION_B;
    return action;
}

ptrdiff_t span_index_maker(const struct span_index *index, const struct message *message)
{
    return span_index_before(index, computed(message), message->start_ns);
}

ptrdiff_t span_index_user(const struct span_index *index, const struct message *message)
{
    struct action user = computed(message);
    user.stage = (uint16_t)(user.kind == ACTION_F ? user.stage + 1 : user.stage - 1);
    return span_index_after(index, user, message->end_ns);
}

bool action_input(struct action action, struct action *maker)
{
    *maker = action;
    if (action.kind == ACTION_F && action.stage > 0)
        maker->stage--;
    else if ((action.kind == ACTION_B || action.kind == ACTION_I) && action.stage < UINT16_MAX)
        maker->stage++;
    else
        return false;
    return true;
}

// By action, then by time.
static int compare(const void *a, const void *b, void *spans)
{
    const size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const struct span *x = (const struct span *)spans + i, *y = (const struct span *)spans + j;
    const int result = compare_actions(x->action, y->action);
    if (result)
        return result;
    return x->start_ns != y->start_ns ? (x->start_ns < y->start_ns ? -1 : 1) : (i > j) - (i < j);
}

bool span_index_create(struct span_index *index, const struct timeline *timeline)
{
    index->timeline = timeline;
    index->order = malloc((timeline->span_count + 1) * sizeof *index->order);
    if (!index->order)
        return false;
    for (size_t i = 0; i < timeline->span_count; i++)
        index->order[i] = i;
    if (timeline->span_count > 0)
        qsort_r(index->order, timeline->span_count, sizeof *index->order, compare, timeline->spans);
    return true;
}

void span_index_clear(struct span_index *index)
{
    free(index->order);
    *index = (struct span_index){ 0 };
}

static const struct span *span_at(const struct span_index *index, size_t place)
{
    return &index->timeline->spans[index->order[place]];
}

// The number of spans before the first one like `action` that starts at this time or later.
static size_t lower_bound(const struct span_index *index, struct action action, uint64_t time_ns)
{
    size_t first = 0, end = index->timeline->span_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const struct span *span = span_at(index, middle);
        const int result = compare_actions(span->action, action);
        if (result < 0 || (result == 0 && span->start_ns < time_ns))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

ptrdiff_t span_index_before(const struct span_index *index, struct action action, uint64_t time_ns)
{
    for (size_t position = lower_bound(index, action, time_ns == UINT64_MAX ? time_ns : time_ns + 1); position > 0;
         position--) {
        const struct span *span = span_at(index, position - 1);
        if (!action_is_alike(span->action, action))
            return NO_SPAN;
        if (span->end_ns <= time_ns)
            return (ptrdiff_t)index->order[position - 1];
    }
    return NO_SPAN;
}

ptrdiff_t span_index_after(const struct span_index *index, struct action action, uint64_t time_ns)
{
    const size_t position = lower_bound(index, action, time_ns);
    return position < index->timeline->span_count && action_is_alike(span_at(index, position)->action, action)
             ? (ptrdiff_t)index->order[position] : NO_SPAN;
}
