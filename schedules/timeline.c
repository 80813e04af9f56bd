#include "schedules/timeline.h"

#include <stdlib.h>

#include "common/array.h"

bool timeline_add(struct timeline *timeline, struct span span)
{
    if (!array_reserve(&timeline->spans, &timeline->span_capacity, timeline->span_count + 1, sizeof span))
        return false;
    timeline->spans[timeline->span_count++] = span;
    if (span.rank >= timeline->ranks)
        timeline->ranks = span.rank + 1;
    return true;
}

bool timeline_add_message(struct timeline *timeline, struct message message)
{
    if (!array_reserve(&timeline->messages, &timeline->message_capacity, timeline->message_count + 1, sizeof message))
        return false;
    timeline->messages[timeline->message_count++] = message;
    return true;
}

static bool is_same_moment(const struct timeline *timeline, size_t back, struct level level)
{
    if (timeline->level_count < back)
        return false;
    const struct level *before = &timeline->levels[timeline->level_count - back];
    return before->rank == level.rank && before->time_ns == level.time_ns;
}

// Keeps the highest and the last of all levels at one moment.
bool timeline_add_level(struct timeline *timeline, struct level level)
{
    if (is_same_moment(timeline, 1, level)) {
        struct level *last = &timeline->levels[timeline->level_count - 1];
        const bool has_two = is_same_moment(timeline, 2, level);
        if (has_two && last[-1].bytes < last->bytes)
            last[-1].bytes = last->bytes;
        if (level.bytes >= last->bytes || has_two) {
            last->bytes = level.bytes;
            return true;
        }
    }
    if (!array_reserve(&timeline->levels, &timeline->level_capacity, timeline->level_count + 1, sizeof level))
        return false;
    timeline->levels[timeline->level_count++] = level;
    return true;
}

void timeline_clear(struct timeline *timeline)
{
    free(timeline->spans);
    free(timeline->messages);
    free(timeline->levels);
    *timeline = (struct timeline){ 0 };
}
