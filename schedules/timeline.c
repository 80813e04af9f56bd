#include "schedules/timeline.h"

#include <stdlib.h>

bool timeline_add(struct timeline *timeline, struct span span)
{
    if (timeline->span_count == timeline->span_capacity) {
        const size_t capacity = timeline->span_capacity ? 2 * timeline->span_capacity : 256;
        struct span *spans = realloc(timeline->spans, capacity * sizeof *spans);
        if (!spans)
            return false;
        timeline->spans = spans;
        timeline->span_capacity = capacity;
    }
    timeline->spans[timeline->span_count++] = span;
    if (span.rank >= timeline->ranks)
        timeline->ranks = span.rank + 1;
    return true;
}

bool timeline_add_message(struct timeline *timeline, struct message message)
{
    if (timeline->message_count == timeline->message_capacity) {
        const size_t capacity = timeline->message_capacity ? 2 * timeline->message_capacity : 256;
        struct message *messages = realloc(timeline->messages, capacity * sizeof *messages);
        if (!messages)
            return false;
        timeline->messages = messages;
        timeline->message_capacity = capacity;
    }
    timeline->messages[timeline->message_count++] = message;
    return true;
}

void timeline_clear(struct timeline *timeline)
{
    free(timeline->spans);
    free(timeline->messages);
    *timeline = (struct timeline){ 0 };
}
