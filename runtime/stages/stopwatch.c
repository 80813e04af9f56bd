#include "runtime/stages/stopwatch.h"

#include <assert.h>
#include <stdlib.h>

static bool make_event(struct stopwatch *stopwatch, struct device *device, struct error *error)
{
    struct event **marks = realloc(stopwatch->marks, (stopwatch->made + 1) * sizeof(struct event *));
    if (!marks)
        return error_no_memory(error, "the times of what is run again");
    stopwatch->marks = marks;
    marks[stopwatch->made] = event_create(device, error);
    stopwatch->made += marks[stopwatch->made] != NULL;
    return stopwatch->count < stopwatch->made;
}

bool stopwatch_mark(struct stopwatch *stopwatch, struct queue *queue, struct error *error)
{
    if (stopwatch->count == stopwatch->made && !make_event(stopwatch, queue_device(queue), error))
        return false;
    event_record(stopwatch->marks[stopwatch->count++], queue);
    return true;
}

uint64_t stopwatch_read(const struct stopwatch *stopwatch)
{
    uint64_t sum_ns = stopwatch->known_ns;
    assert(stopwatch->count % 2 == 0);
    for (size_t i = 0; i < stopwatch->count; i += 2)
        sum_ns += event_time_ns(stopwatch->marks[i + 1]) - event_time_ns(stopwatch->marks[i]);
    return sum_ns;
}

void stopwatch_reset(struct stopwatch *stopwatch)
{
    stopwatch->known_ns = 0;
    stopwatch->count = 0;
}

void stopwatch_close(struct stopwatch *stopwatch)
{
    for (size_t i = 0; i < stopwatch->made; i++)
        event_free(stopwatch->marks[i]);
    free(stopwatch->marks);
    *stopwatch = (struct stopwatch){ 0 };
}
