// Another way to place receives: each RECV right before the action that uses it.
//
//     early (lower.h)   1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 ...      posted when the message is made
//     late              1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 ...      posted when the message is needed
//
// A receive that is posted early blocks everything behind it on its lane (lane_world.h). A receive that is posted
// late may never be reached: its rank may wait in a SEND whose own receive is posted late, too. Whether either order
// can run is decided by check.h; this function guarantees nothing.
#ifndef SCHEDULES_LOWER_LATE_H
#define SCHEDULES_LOWER_LATE_H

#include "schedules/schedule.h"

// Returns a new, lowered schedule, freed by schedule_free(). The order need not be able to run, but its actions must
// be in range (board.h).
struct schedule *schedule_lower_late(const struct schedule *order, struct error *error);

// The compute order of a lowered schedule: a copy without SENDs and RECVs.
struct schedule *schedule_without_messages(const struct schedule *lowered, struct error *error);

#endif
