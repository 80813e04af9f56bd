// The other place for receives: each RECV right before the action that uses it.
//
//     early (lower.h)   1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 ...      posted when the message is made
//     late              1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 ...      posted when the message is needed
//
// A receive that is posted early holds up whatever shares its lane (lanes.h); one
// that is posted late may never be reached, because its rank waits in a SEND until
// somebody else reaches a late RECV. Which of the two can run is a question for
// check.h; nothing is promised here.
#ifndef SCHEDULES_LOWER_LATE_H
#define SCHEDULES_LOWER_LATE_H

#include "schedules/schedule.h"

// A new, lowered schedule. The order need not be one that can run, but its actions
// must be in range (board.h).
struct schedule *schedule_lower_late(const struct schedule *order, struct error *error);

// The compute order within a lowered schedule: a copy without SENDs and RECVs.
struct schedule *schedule_without_messages(const struct schedule *lowered, struct error *error);

#endif
