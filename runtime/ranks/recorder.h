// When things happened in the last pass through a schedule. Room for every action and message is allocated at the
// start. Each rank writes its own part while it runs, and the timeline is assembled afterwards.
//
// A device may run ahead of its host, so times are those of events. A rank's queue records one event before an action
// and one after it, and both are read at the end of the pass. The event after an action also says that its slots are
// free (docs/decisions/043-events-by-slot.md).
#ifndef RUNTIME_RANKS_RECORDER_H
#define RUNTIME_RANKS_RECORDER_H

#include "runtime/stages/stopwatch.h"
#include "schedules/simulate.h"
#include "schedules/timeline.h"

// The events of a span, recorded by the rank's queue.
struct span_events {
    struct event *begin, *end;
};

// What it took a rank to give its queue the work of a pass.
struct rank_effort {
    uint64_t host_ns;   // CPU time of its thread until its queue had all work
    uint64_t replayed;  // actions that were given as replays of recorded work, if its device records (replays.h)
};

struct rank_record {
    struct span *spans;          // compute actions, REDUCEs and STEPs, in order
    struct span_events *events;  // of each span; actions that are done together have the same two
    struct span_events *own;     // the events that exist
    struct stopwatch *reruns;    // by span
    size_t span_count, most_spans;
    struct rank_effort effort;
};

// The later of a time and that of an event, which may be NULL.
struct moment {
    const struct event *event;
    uint64_t ns;
};

struct recorder {
    const struct schedule *schedule;
    struct rank_record *ranks;
    struct moment *sent;     // by channel, then part_place(); written by the sender
    struct moment *arrived;  // the same; written by the receiver
    uint64_t start_ns;       // start of the pass by clock_now_ns(), as are all times above
};

bool recorder_open(struct recorder *recorder, const struct schedule *lowered, struct device *device,
                   struct error *error);
void recorder_close(struct recorder *recorder);

// Before each pass, while no rank runs.
void recorder_begin(struct recorder *recorder);

// Adds what a rank does next, usually one action. Actions that are done together are between the same two events.
// Each action has a span, whose start may be overwritten by a time that is known better, and a stopwatch for its
// recomputation.
struct recording {
    struct span_events events;
    struct span *spans;
    struct stopwatch *reruns;
};
struct recording recorder_add(struct recorder *recorder, uint32_t rank, const struct action *actions, size_t count);
void recorder_sent(struct recorder *recorder, struct action send, struct moment moment);
void recorder_arrived(struct recorder *recorder, struct action receive, struct moment moment);

// After a pass, when all queues are done: reads the times of the events.
void recorder_end(struct recorder *recorder);

// After a pass that failed, instead of recorder_end(): the actions that have begun. Those that have not ended get the
// current time as their end.
bool recorder_last_actions(const struct recorder *recorder, struct timeline *timeline, struct error *error);

// After recorder_end(). Times count from the start of the first action. `per_rank` has a row per rank; its bytes and
// in-flight counts are left unchanged.
bool recorder_timeline(const struct recorder *recorder, struct timeline *timeline, struct error *error);
void recorder_results(const struct recorder *recorder, struct rank_result *per_rank, uint64_t *iteration_ns);

#endif
