// When things happened in the last pass through a schedule: room for every action
// and message is made at the start, each rank writes its own part while it runs,
// and the timeline is put together afterwards.
#ifndef RUNTIME_RECORDER_H
#define RUNTIME_RECORDER_H

#include "schedules/simulate.h"
#include "schedules/timeline.h"

struct rank_record {
    struct span *spans;  // compute actions and STEPs, in order
    size_t span_count;
    uint64_t waited_ns;  // for messages and for buffers of unsent ones
};

struct recorder {
    const struct schedule *schedule;
    struct rank_record *ranks;
    uint64_t *sent_ns;     // by channel, then part_place(); by the sender
    uint64_t *arrived_ns;  // by the receiver
    uint64_t start_ns;     // of the pass, by clock_now_ns(); all times above are by that clock
};

bool recorder_open(struct recorder *recorder, const struct schedule *lowered, struct error *error);
void recorder_close(struct recorder *recorder);

// Before each pass, while no rank runs.
void recorder_begin(struct recorder *recorder);

void recorder_span(struct recorder *recorder, struct span span);
void recorder_sent(struct recorder *recorder, struct action send, uint64_t at_ns);
void recorder_arrived(struct recorder *recorder, struct action receive, uint64_t at_ns);

// After a pass. Times count from its first action. `per_rank` has a row per rank;
// its bytes and in-flight counts are left alone.
bool recorder_timeline(const struct recorder *recorder, struct timeline *timeline, struct error *error);
void recorder_results(const struct recorder *recorder, struct rank_result *per_rank, uint64_t *iteration_ns);

#endif
