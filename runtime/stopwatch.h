// Adds up stretches of a queue's time: mark one's beginning, then its end, as often as
// needed; once the queue is done, read the sum. On a device that runs ahead the host
// cannot know any earlier.
#ifndef RUNTIME_STOPWATCH_H
#define RUNTIME_STOPWATCH_H

#include "device/device.h"

struct stopwatch {  // all zero: nothing was marked yet
    uint64_t known_ns;     // added as it is, by who knows it without looking
    struct event **marks;  // beginning, end, beginning, end ...
    size_t count, made;    // marked since the reset; events there are
};

bool stopwatch_mark(struct stopwatch *stopwatch, struct queue *queue, struct error *error);
uint64_t stopwatch_read(const struct stopwatch *stopwatch);

void stopwatch_reset(struct stopwatch *stopwatch);  // keeps its events
void stopwatch_close(struct stopwatch *stopwatch);

#endif
