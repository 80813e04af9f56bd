// Sends what is kept for backwards to the host of its rank, and gets it back in time, by actions of the schedule:
//
//     0F4 0B1 0F5 0B2 ...                                            what 0F4 keeps is there until 0B4
//     0F4 0EVICT4 0PREFETCH2 0B1 0F5 0EVICT5 0PREFETCH3 0B2 ...      there are two such places on the device
//
// The rule. An EVICT stands right behind its F, a PREFETCH in front of what needs it (B, I or R, whichever comes
// first), ahead of at most two more computations, of which one may be an F of its stage, as far as the places allow. A
// stage has two places, or more where its own order needs more at a time (I and W apart: what W needs stays from PREFETCH
// to W). What is needed by the very next computation of the rank stays where it is, and so does all that a stage keeps
// that never keeps more than two.
//
// Moves run beside computations, over the rank's link to its host (host_places.h).
#ifndef SCHEDULES_HOST_MOVES_H
#define SCHEDULES_HOST_MOVES_H

#include "schedules/schedule.h"

// Adds them to a compute order that has none. Where nothing goes back, nothing is kept, and nothing added. ERROR_ANSWER
// when an action stands where it may not.
bool schedule_add_moves(struct schedule *order, struct error *error);

// Leaves out those there are.
void schedule_drop_moves(struct schedule *schedule);

#endif
