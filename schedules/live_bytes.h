// The bytes on a rank over time, and their maximum. simulate.h says what counts.
//
// Some bytes come and go with the rank's own actions, in the order of its list. Others change when a message arrives
// or has been delivered, or when something goes to the host or comes back. This may happen at any time in between.
//
//     own        start F: - input slot, + the larger of input and kept, + output buffer, + workspace
//                end F:   - workspace, - the part of the input that is not kept
//                start R: + workspace, + recomputed data                 end R: - workspace
//                start B: + workspace, + input gradient buffer     end B: - workspace, - kept, - gradient slot,
//                (without an R of its own: + recomputed data, too)              - recomputed data
//     messages   delivered: - its buffer here       arrived (compute orders; else from its RECV): + its slot
//     moves      EVICT ended: - data that has left  PREFETCH begins on its link: + data that comes back
//
// At one moment ends are counted first, then deliveries, then arrivals, then starts. The list is traversed once.
// Changes that messages will make are kept aside, soonest first, until their time has come.
#ifndef SCHEDULES_LIVE_BYTES_H
#define SCHEDULES_LIVE_BYTES_H

#include "schedules/record.h"

// A change by a message or a move. A PREFETCH is one, for the data that comes back.
struct delivery {
    uint64_t time_ns;
    uint64_t bytes;
    bool comes;
};

// A heap, soonest first.
struct deliveries {
    struct delivery *at;
    size_t count, capacity;
};

struct arrivals {
    struct delivery *at;  // in order of time
    size_t next, count;
};

struct live {
    const struct record *record;
    struct timeline *timeline;    // receives every change; or NULL
    struct versions versions;
    struct change *changes;       // what each kind of action changes, for each stage and split
    __int128 *fixed_bytes;        // per rank
    uint32_t rank;                // the rank that is being traversed
    struct deliveries deliveries;
    struct arrivals arrivals[2];  // forward and back
    uint64_t soonest_ns;          // no message changes anything before this time
    bool has_again;               // whether any stage has again_bytes (data that an R recomputes)
    bool failed;                  // memory ran out
};

// Prepares for the ranks of a record. `timeline` receives the levels of every rank; NULL: they are not needed.
bool live_create(struct live *live, const struct record *record, struct timeline *timeline, struct error *error);
void live_clear(struct live *live);

// Traverses a rank's list once, and sets `peak_bytes` to the most bytes that are there at any moment.
bool live_peak(struct live *live, uint32_t rank, uint64_t *peak_bytes, struct error *error);

#endif
