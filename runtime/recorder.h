// When things happened in the last pass through a schedule: room for every action
// and message is made at the start, each rank writes its own part while it runs,
// and the timeline is put together afterwards.
//
// A device may run ahead of its host, so times are those of events: a rank's queue
// records one ahead of an action and one behind it, and they are read at the end of
// the pass. The event behind an action is also what says that its slots are free
// (docs/decisions/043-events-by-slot.md).
#ifndef RUNTIME_RECORDER_H
#define RUNTIME_RECORDER_H

#include "runtime/stopwatch.h"
#include "schedules/simulate.h"
#include "schedules/timeline.h"

// Of a span: recorded by the rank's queue.
struct span_events {
    struct event *begin, *end;
};

struct rank_record {
    struct span *spans;          // compute actions, REDUCEs and STEPs, in order
    struct span_events *events;  // theirs; what is done together has the same
    struct span_events *own;     // those that there are
    struct stopwatch *reruns;    // by span
    size_t span_count, most_spans;
    uint64_t waited_ns;  // for messages and for buffers of unsent ones; by the host, where a device runs ahead of it
    uint64_t host_ns;    // of the processor, by the rank's thread, until its queue had been given everything
    uint64_t replayed;   // actions that were given to the queue at once (replays.h)
};

// The later of a time and an event's, which may be NULL.
struct moment {
    const struct event *event;
    uint64_t ns;
};

struct recorder {
    const struct schedule *schedule;
    struct rank_record *ranks;
    struct moment *sent;     // by channel, then part_place(); by the sender
    struct moment *arrived;  // by the receiver
    uint64_t start_ns;       // of the pass, by clock_now_ns(); all times above are by that clock
};

bool recorder_open(struct recorder *recorder, const struct schedule *lowered, struct device *device,
                   struct error *error);
void recorder_close(struct recorder *recorder);

// Before each pass, while no rank runs.
void recorder_begin(struct recorder *recorder);

// Adds what a rank does next, mostly one action; what is done together is between the
// same two events. Per action there are a span, whose start may be set to a time that
// is known better, and a stopwatch for what it runs again.
struct recording {
    struct span_events events;
    struct span *spans;
    struct stopwatch *reruns;
};
struct recording recorder_add(struct recorder *recorder, uint32_t rank, const struct action *actions, size_t count);
void recorder_sent(struct recorder *recorder, struct action send, struct moment at);
void recorder_arrived(struct recorder *recorder, struct action receive, struct moment at);

// After a pass, when all queues are done: reads what the events say.
void recorder_end(struct recorder *recorder);

// Of a pass that broke off, instead of recorder_end(): what has begun. What has not ended ends now.
bool recorder_last_actions(const struct recorder *recorder, struct timeline *timeline, struct error *error);

// After recorder_end(). Times count from the first action. `per_rank` has a row per rank;
// its bytes and in-flight counts are left alone.
bool recorder_timeline(const struct recorder *recorder, struct timeline *timeline, struct error *error);
void recorder_results(const struct recorder *recorder, struct rank_result *per_rank, uint64_t *iteration_ns);

#endif
