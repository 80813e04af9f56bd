// Adds actions that offload what is kept for backwards to the host of its rank, and bring it back in time:
//
//     0F4 0B1 0F5 0B2 ...                                            what 0F4 keeps is there until 0B4
//     0F4 0EVICT4 0PREFETCH2 0B1 0F5 0EVICT5 0PREFETCH3 0B2 ...      there are two such places on the device
//
// These actions are called moves. The rule:
//
// * An EVICT comes right after its F.
// * A PREFETCH comes before the first action that needs it (B, I or R). It is ahead of at most two more
//   computations, as far as places allow; one of these may be an F of its stage.
// * A stage has two places on the device, or more if its own order needs more at a time. If I and W are apart, what
//   W needs stays from PREFETCH to W.
// * Data that the very next computation of the rank needs stays on the device. So does all data of a stage that
//   never keeps more than two micro-batches.
//
// Moves run concurrently with computations, over the rank's link to its host (host_places.h).
#ifndef SCHEDULES_HOST_MOVES_H
#define SCHEDULES_HOST_MOVES_H

#include "schedules/schedule.h"

// Adds moves to a compute order that has none. A schedule without backwards keeps nothing, and nothing is added.
// Fails with ERROR_ANSWER if an action is in an illegal place.
bool schedule_add_moves(struct schedule *order, struct error *error);

#endif
