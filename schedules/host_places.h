// Where on its device a stage has what it keeps, when some of that goes to the host in between (EVICT and PREFETCH).
//
// A stage has a row of places for what is kept until its B or I, and another for what is kept until its B or W, as
// many as its lists need at once if an EVICT were over where it stands (slots.h counts them). Whoever takes a place
// takes the one that was given back longest ago, and waits for that, if it was by an EVICT:
//
//     list         0F4  0EVICT4  0PREFETCH2  0B1  0F5  0EVICT5  0PREFETCH3  0B2          two places, a and b
//     takes        a             b                a             b
//     gives             a                    b          a                   b            0B1 had b
//     waits for                  (0EVICT4)                      (0EVICT5)
//
// A PREFETCH need not wait: it goes over the same link as the EVICT, behind it. So it is only an F that is told which
// EVICT must have ended before it begins. As all it ever waits for stands in front of it in the same list, moves can
// hold nobody up for ever.
#ifndef SCHEDULES_HOST_PLACES_H
#define SCHEDULES_HOST_PLACES_H

#include "schedules/board.h"

struct host_places {
    size_t *waits;  // per unit: the one whose EVICT its F waits for, or NO_MOVE; NULL where nothing is moved
};
#define NO_MOVE SIZE_MAX

// ERROR_ANSWER when an action stands where it may not: rank, position, action, and why.
bool host_places_create(struct host_places *places, const struct schedule *schedule, struct error *error);
void host_places_clear(struct host_places *places);

// The unit whose EVICT the action waits for, or NO_MOVE.
static inline size_t host_places_wait(const struct host_places *places, const struct schedule *schedule,
                                      struct action action)
{
    return places->waits && action.kind == ACTION_F ? places->waits[unit_of(schedule, action)] : NO_MOVE;
}

// Whether a backward, or an R, waits for what it needs to be back from the host. `did`: what its unit has been through.
static inline bool waits_for_prefetch(struct action action, unsigned did)
{
    return (is_backward(action) || action.kind == ACTION_R) && (did & DID_PREFETCH);
}

#endif
