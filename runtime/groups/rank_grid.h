// The places of a run whose stages are split over tensor-parallel groups. A seat is a member of a rank's group. Each
// member of a group has a place with a device of its own: a process, or a thread (rank_places.h).
//
//     rank           0           1      2          by the plan's schedule
//     member       0   1         0    0   1        of the rank's group
//     place        0   1         2    3   4        in the process group of all places
//
// A rank's group may have fewer members than the largest, such as rank 1 here. The missing members follow it
// (proxy_stages.h), at its first place.
#ifndef RUNTIME_GROUPS_RANK_GRID_H
#define RUNTIME_GROUPS_RANK_GRID_H

#include "partitioner/plan/plan.h"
#include "runtime/groups/process_group.h"

struct rank_grid {
    uint32_t ranks, members;  // members: of the largest group
    uint32_t *first;          // place of each rank's member 0, plus one entry for the end
    uint32_t most;            // the most members at a place
    // The process group of all places. NULL: all are threads of this process on one device, or there are no
    // tensor-parallel groups.
    const struct process_group *group;
    uint32_t rank;            // whose place this is, if there is a group
};

// Borrows the group. Fails if its size is not the number of the plan's devices.
bool rank_grid_open(struct rank_grid *grid, const struct plan *plan, const struct process_group *group,
                    struct error *error);
void rank_grid_close(struct rank_grid *grid);

// How many members the largest tensor-parallel group of a plan's stages has; 1 if no stage is split.
uint32_t plan_members(const struct plan *plan);

// The number of devices in a rank's group.
static inline uint32_t rank_grid_group(const struct rank_grid *grid, uint32_t rank)
{
    return grid->first[rank + 1] - grid->first[rank];
}

static inline uint32_t rank_grid_place(const struct rank_grid *grid, uint32_t rank, uint32_t member)
{
    return grid->first[rank] + (member < rank_grid_group(grid, rank) ? member : 0);
}

// The member's index among the members at its place.
static inline uint32_t rank_grid_row(const struct rank_grid *grid, uint32_t rank, uint32_t member)
{
    return member < rank_grid_group(grid, rank) ? 0 : 1 + member - rank_grid_group(grid, rank);
}

// Whether a member is at a place of this process.
static inline bool rank_grid_have(const struct rank_grid *grid, uint32_t member)
{
    return !grid->group || rank_grid_place(grid, grid->rank, member) == grid->group->rank;
}

#endif
