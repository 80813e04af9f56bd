// What each action of a timeline waited for, read off the timeline itself: so a
// measured run tells as much as a simulated one.
//
//     rank 0  [F0 ][F1 ]             F1 waited for F0, its rank being busy;
//     rank 1       ···[F0 ]          rank 1's F0 for a message of rank 0's F0
//
// An action begins once its rank is free and its input has arrived. Whichever came
// last held it up; the message, if both came at once.
#ifndef SCHEDULES_CAUSES_H
#define SCHEDULES_CAUSES_H

#include "schedules/simulate.h"

struct cause {
    ptrdiff_t span;     // which span of the timeline, or NO_SPAN (span_index.h): nothing held it up
    ptrdiff_t message;  // which message brought it, or NO_SPAN: none did, or none was recorded
    uint64_t ready_ns;  // when it no longer held the action up
};

struct causes {
    struct cause *of;       // per span
    bool *critical;         // per span: part of the chain that ends last
    bool *critical_message;  // per message
    struct critical_path path;  // what the chain is made of: transfers are whole messages here,
                                // and waiting is whatever nobody accounts for
};

// False only without memory.
bool causes_create(struct causes *causes, const struct timeline *timeline);
void causes_clear(struct causes *causes);

#endif
