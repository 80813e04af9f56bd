// Adds up intervals of a queue's time. Mark the beginning and then the end of an interval, as often as needed, and
// read the sum when the queue is done. On a device that runs ahead, the host cannot know the times earlier.
#ifndef RUNTIME_STAGES_STOPWATCH_H
#define RUNTIME_STAGES_STOPWATCH_H

#include "device/device.h"

struct stopwatch {  // all zero: nothing was marked yet
    uint64_t known_ns;     // added without marks, by code that knows the time
    struct event **marks;  // beginning, end, beginning, end ...
    size_t count, made;    // marks since the reset; events that exist
};

bool stopwatch_mark(struct stopwatch *stopwatch, struct queue *queue, struct error *error);
uint64_t stopwatch_read(const struct stopwatch *stopwatch);

void stopwatch_reset(struct stopwatch *stopwatch);  // keeps its events
void stopwatch_close(struct stopwatch *stopwatch);

#endif
