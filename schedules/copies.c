#include "schedules/copies.h"

#include <stdlib.h>

#include "common/ascending.h"

// Sorts ranks and removes duplicates; returns how many are left.
static uint32_t sort_ranks(uint32_t *ranks, uint32_t count)
{
    uint32_t kept = 0;
    if (count > 1)
        qsort(ranks, count, sizeof *ranks, ascending_u32s);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || ranks[kept - 1] != ranks[i])
            ranks[kept++] = ranks[i];
    }
    return kept;
}

static void collect(struct copies *copies, const struct schedule *schedule)
{
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        uint32_t *ranks = &copies->ranks[copies->first[stage]];
        for (uint32_t route = 0; route < schedule->route_count; route++)
            ranks[route] = schedule->routes[(size_t)route * schedule->stages + stage];
        copies->first[stage + 1] = copies->first[stage] + sort_ranks(ranks, schedule->route_count);
        for (uint32_t route = 0; route < schedule->route_count; route++) {
            const size_t index = (size_t)route * schedule->stages + stage;
            copies->of_route[index] = copies_find(copies, stage, schedule->routes[index]);
        }
    }
}

bool copies_create(struct copies *copies, const struct schedule *schedule, struct error *error)
{
    const size_t most = (size_t)schedule->route_count * schedule->stages;
    *copies = (struct copies){
        .first = calloc(schedule->stages + (size_t)1, sizeof *copies->first),
        .ranks = calloc(most, sizeof *copies->ranks),
        .of_route = calloc(most, sizeof *copies->of_route),
    };
    if (!copies->first || !copies->ranks || !copies->of_route) {
        copies_clear(copies);
        return error_no_memory(error, "the copies of a schedule's stages");
    }
    collect(copies, schedule);
    return true;
}

void copies_clear(struct copies *copies)
{
    free(copies->first);
    free(copies->ranks);
    free(copies->of_route);
    *copies = (struct copies){ 0 };
}

uint32_t copies_find(const struct copies *copies, uint32_t stage, uint32_t rank)
{
    uint32_t low = copies->first[stage], high = copies->first[stage + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (copies->ranks[middle] == rank)
            return middle;
        if (copies->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return NO_COPY;
}
