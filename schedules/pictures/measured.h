// Computes the results of a simulation from the spans of a timeline. It is made for measured runs, and is also
// correct for simulated ones.
#ifndef SCHEDULES_MEASURED_H
#define SCHEDULES_MEASURED_H

#include "schedules/simulate.h"

// Times count from the timeline's first start. Bytes are those given to timeline_add_level(), or 0. In the critical
// path a message counts as a whole as transfer, and order_ns is all waiting without a known cause. The result is
// cleared by simulation_clear().
bool timeline_measure(const struct timeline *timeline, struct simulation *simulation, struct error *error);

// The first difference of two timelines. A difference is in what a rank computes. If all ranks compute the same, it
// is in when a computation begins or how long it takes, by more than `tolerance_ns`.
struct difference {
    enum { DIFFERENCE_NONE, DIFFERENCE_TIME, DIFFERENCE_ACTION, DIFFERENCE_RANKS } what;
    uint32_t rank;
    size_t position;       // among the computations of the rank
    ptrdiff_t spans[2];    // in each of the two timelines; NO_SPAN (span_index.h) if a rank has no more
    uint64_t time_ns;      // from the beginning of the timeline that comes first
    uint64_t tolerance_ns;
};
bool timeline_compare(const struct timeline *a, const struct timeline *b, uint64_t tolerance_ns,
                      struct difference *difference, struct error *error);
// Whether two timelines do the same work: as many forwards and backwards per stage. If not, appends a sentence
// without capital and full stop.
bool timeline_is_same_work(const struct timeline *a, const struct timeline *b, struct text *why);
// Appends the first difference as a sentence, without capital and full stop.
void difference_write(const struct difference *difference, const struct timeline *a, const struct timeline *b,
                      struct text *text);

#endif
