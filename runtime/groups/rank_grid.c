#include "runtime/groups/rank_grid.h"

#include <stdlib.h>

uint32_t plan_members(const struct plan *plan)
{
    uint32_t members = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan_stage_group(&plan->stages[s]) > members)
            members = plan_stage_group(&plan->stages[s]);
    return members;
}

// If a rank has several stages, their groups are alike.
static bool find_places(struct rank_grid *grid, const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    for (uint32_t rank = 0; placement && rank < grid->ranks; rank++) {
        const uint32_t stage = placement->held[placement->stage_at[rank]];
        const uint32_t group = plan_stage_group(&plan->stages[stage]);
        grid->first[rank + 1] = grid->first[rank] + group;
        if (1 + grid->members - group > grid->most)
            grid->most = 1 + grid->members - group;
    }
    const bool good = placement != NULL;
    placement_free(placement);
    return good;
}

static bool fits(struct rank_grid *grid, struct error *error)
{
    const uint32_t places = grid->first[grid->ranks];
    if (grid->group && grid->group->ranks != places)
        return error_set(error, "the plan's ranks are groups of %u devices in all, and the run has %u: a process or a"
                         " device for each is needed", places, grid->group->ranks);
    while (grid->group && grid->first[grid->rank + 1] <= grid->group->rank)
        grid->rank++;
    return true;
}

bool rank_grid_open(struct rank_grid *grid, const struct plan *plan, const struct process_group *group,
                    struct error *error)
{
    *grid = (struct rank_grid){ .ranks = plan->ranks, .members = plan_members(plan), .most = 1 };
    grid->group = grid->members > 1 ? group : NULL;
    grid->first = calloc(plan->ranks + 1u, sizeof grid->first[0]);
    if (!grid->first)
        return error_no_memory(error, "the devices of a run");
    return find_places(grid, plan, error) && fits(grid, error);
}

void rank_grid_close(struct rank_grid *grid)
{
    free(grid->first);
    grid->first = NULL;
}
