#include "runtime/seats.h"

#include <stdlib.h>

uint32_t plan_members(const struct plan *plan)
{
    uint32_t members = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan_stage_group(&plan->stages[s]) > members)
            members = plan_stage_group(&plan->stages[s]);
    return members;
}

// Of a rank with several stages their groups are alike.
static bool find_places(struct seats *seats, const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    for (uint32_t rank = 0; placement && rank < seats->ranks; rank++) {
        const uint32_t stage = placement->held[placement->stage_at[rank]];
        const uint32_t group = plan_stage_group(&plan->stages[stage]);
        seats->first[rank + 1] = seats->first[rank] + group;
        if (1 + seats->members - group > seats->most)
            seats->most = 1 + seats->members - group;
    }
    const bool good = placement != NULL;
    placement_free(placement);
    return good;
}

static bool fits(struct seats *seats, struct error *error)
{
    const uint32_t places = seats->first[seats->ranks];
    if (seats->group && seats->group->ranks != places)
        return error_set(error, "the plan's ranks are groups of %u devices in all, and the run has %u: a process or a"
                         " device for each is needed", places, seats->group->ranks);
    while (seats->group && seats->first[seats->rank + 1] <= seats->group->rank)
        seats->rank++;
    return true;
}

bool seats_open(struct seats *seats, const struct plan *plan, const struct process_group *group, struct error *error)
{
    *seats = (struct seats){ .ranks = plan->ranks, .members = plan_members(plan), .most = 1 };
    seats->group = seats->members > 1 ? group : NULL;
    seats->first = calloc(plan->ranks + 1u, sizeof seats->first[0]);
    if (!seats->first)
        return error_no_memory(error, "the devices of a run");
    return find_places(seats, plan, error) && fits(seats, error);
}

void seats_close(struct seats *seats)
{
    free(seats->first);
    seats->first = NULL;
}
