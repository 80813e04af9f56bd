// Which ranks hold each stage, and which stages each rank holds, read from the routes of a schedule. No other code
// decides this.
//
//     zb-v, p = 2       stage   0  1  2  3        rank 0 holds 0 and 3, rank 1 holds 1 and 2
//                       rank    0  1  1  0
//     chimera, p = 2    stage   0  1              two routes: every stage has two copies
//                       ranks  0,1 1,0
//
// The copies (or replicas) of a stage are in the order of the first route that uses them.
#ifndef PARTITIONER_PLAN_PLACEMENT_H
#define PARTITIONER_PLAN_PLACEMENT_H

#include "schedules/schedule.h"

struct placement {
    uint32_t ranks, stages;
    uint32_t *copy_at;   // copies of stage s: copies[copy_at[s]] to copies[copy_at[s + 1]]; stages + 1
    uint32_t *copies;    // their ranks
    uint32_t *stage_at;  // stages of rank r: held[stage_at[r]] to held[stage_at[r + 1]]; ranks + 1
    uint32_t *held;      // ascending
    // In a plan's placement: the device of each rank, or the first of its group. Messages go to it and come from it.
    uint32_t *devices;
};

// Freed by placement_free().
struct placement *placement_read(const struct schedule *schedule, struct error *error);
void placement_free(struct placement *placement);

static inline uint32_t placement_copies(const struct placement *placement, uint32_t stage)
{
    return placement->copy_at[stage + 1] - placement->copy_at[stage];
}

// The copy of a stage that a rank holds; NOT_HELD if none.
#define NOT_HELD UINT32_MAX
static inline uint32_t placement_find(const struct placement *placement, uint32_t stage, uint32_t rank)
{
    for (uint32_t i = placement->copy_at[stage]; i < placement->copy_at[stage + 1]; i++)
        if (placement->copies[i] == rank)
            return i - placement->copy_at[stage];
    return NOT_HELD;
}

static inline uint32_t placement_rank(const struct placement *placement, uint32_t stage, uint32_t copy)
{
    return placement->copies[placement->copy_at[stage] + copy];
}

#endif
