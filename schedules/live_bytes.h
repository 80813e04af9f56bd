// The bytes on a rank over time, and their maximum: simulate.h says what counts.
//
// Some things come and go with the rank's own actions, in the order of its list;
// others when a message arrives or has been delivered, or something goes to the host and back, at any time between.
//
//     own        start F: - input slot, + the larger of input and kept, + output buffer, + workspace
//                end F:   - workspace, - what of the input is not kept
//                start R: + workspace, + what is run again               end R: - workspace
//                start B: + workspace, + input gradient buffer     end B: - workspace, - kept, - gradient slot,
//                (without an R of its own: + what is run again, too)            - what is run again
//     messages   delivered: - its buffer here       arrived (compute orders; else from its RECV): + its slot
//     moves      EVICT ended: - what has left       PREFETCH begins on its link: + what comes back
//
// At one moment the ends come first, then deliveries, then arrivals, then starts.
// The list is gone through once; what messages will change is kept aside, soonest
// first, until its time has come.
#ifndef SCHEDULES_LIVE_BYTES_H
#define SCHEDULES_LIVE_BYTES_H

#include "schedules/record.h"

// A PREFETCH is one, too, of what comes back.
struct delivery {
    uint64_t time_ns;
    uint64_t bytes;
    bool comes;
};

// Soonest first, by way of a heap.
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
    struct timeline *timeline;    // is told of every change; or NULL
    struct versions versions;
    struct change *changes;       // what each kind of action changes, of each stage and split
    __int128 *fixed_bytes;        // per rank
    uint32_t rank;                // that is gone through
    struct deliveries deliveries;
    struct arrivals arrivals[2];  // forward and back
    uint64_t soonest_ns;          // nothing changes by messages before
    bool has_again;               // some stage has bytes of what is run again by an R
    bool failed;                  // no memory
};

// A `timeline` receives the levels of every rank; NULL: nobody asks.
bool live_create(struct live *live, const struct record *record, struct timeline *timeline, struct error *error);
void live_clear(struct live *live);

// Goes through a rank's list, once: the most that is there at a moment.
bool live_peak(struct live *live, uint32_t rank, uint64_t *peak_bytes, struct error *error);

#endif
