// Whether ranks whose replicas run collectives (collectives.h) reach the ends of their lists, or deadlock.
//
//     copy 0   0F0 0SEND_F0 0F1 ...     0F1 is a collective: copy 1 must stand at its own second F,
//     copy 1   0F2 1RECV_F0 ...         and cannot before 0SEND_F0 has been
#ifndef PARTITIONER_PLAN_COLLECTIVES_ENDS_H
#define PARTITIONER_PLAN_COLLECTIVES_ENDS_H

#include "partitioner/plan/collectives.h"

// For a lowered schedule. Sets, for each absence, the position in the rank's list at which the rank joins the
// collective. Refuses, with a sentence, a schedule that would deadlock.
bool collectives_come_to_ends(struct collectives *collectives, const struct schedule *schedule,
                              const struct placement *placement, struct error *error);

#endif
