// Finds what each action of a timeline waited for. It uses only the timeline itself, so it works for measured runs
// as well as for simulated ones.
//
//     rank 0  [F0 ][F1 ]             F1 waited for F0, since its rank was busy;
//     rank 1       ···[F0 ]          rank 1's F0 for a message of rank 0's F0; an exchange is a message, too
//
// An action begins once its rank is free and its input has arrived. The later of the two is the cause of its start;
// if both are at the same moment, the message is.
#ifndef SCHEDULES_CAUSES_H
#define SCHEDULES_CAUSES_H

#include "schedules/simulate.h"

struct cause {
    ptrdiff_t span;     // index of the span that it waited for, or NO_SPAN (span_index.h): it waited for nothing
    ptrdiff_t message;  // index of the message that brought its input, or NO_SPAN: there was none, or none was recorded
    uint64_t ready_ns;  // when the cause no longer delayed the action
};

struct causes {
    struct cause *of;       // per span
    bool *critical;         // per span: whether it is on the critical path
    bool *critical_message;  // per message
    // The parts of the critical path: a transfer is a whole message here, and waiting is time without a known cause.
    struct critical_path path;
};

// Returns false only if memory runs out. Cleared by causes_clear().
bool causes_create(struct causes *causes, const struct timeline *timeline);
void causes_clear(struct causes *causes);

#endif
