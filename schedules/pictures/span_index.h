// A timeline's spans by what they are, so that who needs something finds who made it.
//
// F is one class, B and I another (a micro-batch has one of the two on a stage), and
// every other kind its own. Runs of many iterations repeat themselves: which of the
// repetitions is meant follows from the time.
#ifndef SCHEDULES_SPAN_INDEX_H
#define SCHEDULES_SPAN_INDEX_H

#include "schedules/timeline.h"

enum { NO_SPAN = -1 };

struct span_index {
    const struct timeline *timeline;
    size_t *order;
};

// Keeps the timeline, which must stay as it is. False only without memory.
bool span_index_create(struct span_index *index, const struct timeline *timeline);
void span_index_clear(struct span_index *index);

// Whether both are F of the same micro-batch, stage and split; or B and I; or else the same.
bool action_is_alike(struct action a, struct action b);

// The last span like `action`, anywhere, that ended by then; and the first that began
// no sooner. NO_SPAN if there is none.
ptrdiff_t span_index_before(const struct span_index *index, struct action action, uint64_t time_ns);
ptrdiff_t span_index_after(const struct span_index *index, struct action action, uint64_t time_ns);

// Who made what an F, B or I takes in: the F of the stage before, or the backward of
// the stage after. False where that is nobody.
bool action_input(struct action action, struct action *maker);

#endif
