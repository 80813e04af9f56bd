#include "partitioner/plan/placement.h"

#include <stdlib.h>

void placement_free(struct placement *placement)
{
    if (!placement)
        return;
    free(placement->copy_at);
    free(placement->copies);
    free(placement->stage_at);
    free(placement->held);
    free(placement->devices);
    free(placement);
}

static bool has_copy(const struct placement *placement, uint32_t stage, uint32_t count, uint32_t rank)
{
    for (uint32_t i = placement->copy_at[stage]; i < count; i++)
        if (placement->copies[i] == rank)
            return true;
    return false;
}

static void read_copies(struct placement *placement, const struct schedule *schedule)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < schedule->stages; s++) {
        placement->copy_at[s] = count;
        for (uint32_t route = 0; route < schedule->route_count; route++) {
            const uint32_t rank = schedule->routes[(size_t)route * schedule->stages + s];
            if (!has_copy(placement, s, count, rank))
                placement->copies[count++] = rank;
        }
    }
    placement->copy_at[schedule->stages] = count;
}

static void turn_round(struct placement *placement)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < placement->ranks; r++) {
        placement->stage_at[r] = count;
        for (uint32_t s = 0; s < placement->stages; s++)
            if (has_copy(placement, s, placement->copy_at[s + 1], r))
                placement->held[count++] = s;
    }
    placement->stage_at[placement->ranks] = count;
}

struct placement *placement_read(const struct schedule *schedule, struct error *error)
{
    // A stage has no more copies than there are routes, or ranks.
    const size_t most = schedule->route_count < schedule->ranks ? schedule->route_count : schedule->ranks;
    struct placement *placement = calloc(1, sizeof *placement);
    if (placement) {
        placement->ranks = schedule->ranks;
        placement->stages = schedule->stages;
        placement->copy_at = calloc((size_t)schedule->stages + 1, sizeof placement->copy_at[0]);
        placement->copies = calloc(schedule->stages * most + 1, sizeof placement->copies[0]);
        placement->stage_at = calloc((size_t)schedule->ranks + 1, sizeof placement->stage_at[0]);
        placement->held = calloc(schedule->stages * most + 1, sizeof placement->held[0]);
    }
    if (!placement || !placement->copy_at || !placement->copies || !placement->stage_at || !placement->held) {
        placement_free(placement);
        return error_null(error_no_memory(error, "the placement of stages"));
    }
    read_copies(placement, schedule);
    turn_round(placement);
    return placement;
}
