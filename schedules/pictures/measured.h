// What a timeline says of the run it shows: the results a simulation has, read off
// the spans. Made for measured runs, and right for simulated ones.
#ifndef SCHEDULES_MEASURED_H
#define SCHEDULES_MEASURED_H

#include "schedules/simulate.h"

// Times count from the timeline's first start. Bytes are what timeline_add_level() was
// told, or 0. In the critical path a message counts whole as transfer, and order_ns is
// all waiting that nothing accounts for. Cleared by simulation_clear().
bool timeline_measure(const struct timeline *timeline, struct simulation *simulation, struct error *error);

// Where two timelines first differ: in what a rank computes, or, where all do the same, in
// when it begins or how long it takes, by more than `tolerance_ns`.
struct difference {
    enum { DIFFERENCE_NONE, DIFFERENCE_TIME, DIFFERENCE_ACTION, DIFFERENCE_RANKS } what;
    uint32_t rank;
    size_t position;       // among what the rank computes
    ptrdiff_t spans[2];    // of either timeline; NO_SPAN (span_index.h) where a rank has no more
    uint64_t time_ns;      // from the beginning of whichever comes first
    uint64_t tolerance_ns;
};
bool timeline_compare(const struct timeline *a, const struct timeline *b, uint64_t tolerance_ns,
                      struct difference *difference, struct error *error);
// Whether two timelines do the same work: as many forwards and backwards per stage. Adds a sentence, with neither
// capital nor stop, where they do not.
bool timeline_is_same_work(const struct timeline *a, const struct timeline *b, struct text *why);
// The first difference as a sentence, with neither capital nor stop.
void difference_write(const struct difference *difference, const struct timeline *a, const struct timeline *b,
                      struct text *text);

#endif
