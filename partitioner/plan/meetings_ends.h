// Whether ranks whose replicas meet (meetings.h) come to the ends of their lists, or wait for each other for ever.
//
//     copy 0   0F0 0SEND_F0 0F1 ...     0F1 is a meeting: copy 1 must stand at its own second F,
//     copy 1   0F2 1RECV_F0 ...         and cannot before 0SEND_F0 has been
#ifndef PARTITIONER_PLAN_MEETINGS_ENDS_H
#define PARTITIONER_PLAN_MEETINGS_ENDS_H

#include "partitioner/plan/meetings.h"

// Of a lowered schedule. Who is absent from a meeting is given the place in its list where it comes to it. Refuses, with
// a sentence, what would stand still.
bool meetings_come_to_ends(struct meetings *meetings, const struct schedule *schedule,
                           const struct placement *placement, struct error *error);

#endif
