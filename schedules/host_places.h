// Assigns places on the device to what a stage keeps, if some of that goes to the host in between (EVICT and
// PREFETCH).
//
// A stage has a row of places for data kept until B or I, and another for data kept until B or W. Each row has as
// many places as the stage's lists need at once if an EVICT ended at its position in the list (slots.h counts them).
// An action that takes a place takes the one that was given back longest ago. If an EVICT gave it back, the action
// waits for that EVICT:
//
//     list         0F4  0EVICT4  0PREFETCH2  0B1  0F5  0EVICT5  0PREFETCH3  0B2          two places, a and b
//     takes        a             b                a             b
//     gives             a                    b          a                   b            0B1 had b
//     waits for                  (0EVICT4)                      (0EVICT5)
//
// A PREFETCH does not need to wait, since it uses the same link as the EVICT, after it. So only an F has an EVICT
// that must end before it begins. That EVICT is always earlier in the same list, so moves cannot cause a deadlock.
#ifndef SCHEDULES_HOST_PLACES_H
#define SCHEDULES_HOST_PLACES_H

#include "schedules/board.h"

struct host_places {
    size_t *waits;  // per unit: the unit whose EVICT its F waits for, or NO_MOVE; NULL if there are no moves
};
#define NO_MOVE SIZE_MAX

// Fails with ERROR_ANSWER if an action is in an illegal place. The error has rank, position, action, and the reason.
bool host_places_create(struct host_places *places, const struct schedule *schedule, struct error *error);
void host_places_clear(struct host_places *places);

// The unit whose EVICT the action waits for, or NO_MOVE.
static inline size_t host_places_wait(const struct host_places *places, const struct schedule *schedule,
                                      struct action action)
{
    return places->waits && action.kind == ACTION_F ? places->waits[unit_of(schedule, action)] : NO_MOVE;
}

// Whether a backward, or an R, waits for its data to come back from the host. `did`: the bits of its unit (board.h).
static inline bool waits_for_prefetch(struct action action, unsigned did)
{
    return (is_backward(action) || action.kind == ACTION_R) && (did & DID_PREFETCH);
}

#endif
