// The places of a run whose stages are split over groups of devices, each of which has a device of its own:
// process, or thread (rank_places.h).
//
//     rank           0           1      2          by the plan's schedule
//     member       0   1         0    0   1        of the rank's group
//     place        0   1         2    3   4        of the process group of all
//
// Members that a rank's group does not have, as of rank 1 here, follow it (followers.h), at its first place.
#ifndef RUNTIME_SEATS_H
#define RUNTIME_SEATS_H

#include "partitioner/plan/plan.h"
#include "runtime/process_group.h"

struct seats {
    uint32_t ranks, members;  // members: of the largest group
    uint32_t *first;          // place of each rank's member 0, and one behind
    uint32_t most;            // members at a place
    const struct process_group *group;  // of all places. NULL: all are threads of this process, on one device; or there
                                        // are no groups
    uint32_t rank;            // that this place is of, where there is a group
};

// Borrows the group. Refuses one of another size than the plan has devices.
bool seats_open(struct seats *seats, const struct plan *plan, const struct process_group *group, struct error *error);
void seats_close(struct seats *seats);

// How many members the largest group of a plan's stages has: 1 where none is split.
uint32_t plan_members(const struct plan *plan);

// With how many devices a rank's group has its own.
static inline uint32_t seats_group(const struct seats *seats, uint32_t rank)
{
    return seats->first[rank + 1] - seats->first[rank];
}

static inline uint32_t seats_place(const struct seats *seats, uint32_t rank, uint32_t member)
{
    return seats->first[rank] + (member < seats_group(seats, rank) ? member : 0);
}

// Its number among the members at its place.
static inline uint32_t seats_row(const struct seats *seats, uint32_t rank, uint32_t member)
{
    return member < seats_group(seats, rank) ? 0 : 1 + member - seats_group(seats, rank);
}

// Whether a member is at a place of this process.
static inline bool seats_have(const struct seats *seats, uint32_t member)
{
    return !seats->group || seats_place(seats, seats->rank, member) == seats->group->rank;
}

#endif
