#include "schedules/timeline.h"

#include <stdlib.h>

// The array with room for one more of `size` bytes: moved, or where it was. NULL without memory.
static void *with_room(void *array, size_t size, size_t count, size_t *capacity)
{
    if (count < *capacity)
        return array;
    const size_t more = *capacity ? 2 * *capacity : 256;
    void *moved = realloc(array, more * size);
    *capacity = moved ? more : *capacity;
    return moved;
}

bool timeline_add(struct timeline *timeline, struct span span)
{
    struct span *spans = with_room(timeline->spans, sizeof span, timeline->span_count, &timeline->span_capacity);
    if (!spans)
        return false;
    timeline->spans = spans;
    timeline->spans[timeline->span_count++] = span;
    if (span.rank >= timeline->ranks)
        timeline->ranks = span.rank + 1;
    return true;
}

bool timeline_add_message(struct timeline *timeline, struct message message)
{
    struct message *messages = with_room(timeline->messages, sizeof message, timeline->message_count,
                                         &timeline->message_capacity);
    if (!messages)
        return false;
    timeline->messages = messages;
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

// Of what is told of one moment, the highest and the last are kept.
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
    struct level *levels = with_room(timeline->levels, sizeof level, timeline->level_count, &timeline->level_capacity);
    if (!levels)
        return false;
    timeline->levels = levels;
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
