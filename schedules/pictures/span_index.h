// An index of a timeline's spans by action, to find the span that made the input of another.
//
// F is one class, B and I another (a micro-batch has one of the two on a stage), and every other kind its own. In
// runs of many iterations actions repeat; the time decides which repetition is meant.
#ifndef SCHEDULES_SPAN_INDEX_H
#define SCHEDULES_SPAN_INDEX_H

#include "schedules/timeline.h"

enum { NO_SPAN = -1 };

struct span_index {
    const struct timeline *timeline;
    size_t *order;
};

// The timeline is borrowed and must not change. Returns false only if memory runs out. Cleared by
// span_index_clear().
bool span_index_create(struct span_index *index, const struct timeline *timeline);
void span_index_clear(struct span_index *index);

// Whether both are an F of the same micro-batch, stage and split; or both a B or I; or otherwise the same action.
bool action_is_alike(struct action a, struct action b);

// The last span like `action`, on any rank, that ended by this time; and the first that began no sooner. NO_SPAN if
// there is none.
ptrdiff_t span_index_before(const struct span_index *index, struct action action, uint64_t time_ns);
ptrdiff_t span_index_after(const struct span_index *index, struct action action, uint64_t time_ns);

// The span whose result a message carries, and the one that waits for it. NO_SPAN if there is none.
ptrdiff_t span_index_maker(const struct span_index *index, const struct message *message);
ptrdiff_t span_index_user(const struct span_index *index, const struct message *message);

// Sets `maker` to the action that made the input of an F, B or I: the F of the stage before, or the backward of the
// stage after. Returns false if there is none.
bool action_input(struct action action, struct action *maker);

#endif
