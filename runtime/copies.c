#include "runtime/copies.h"

#include <assert.h>
#include <stdlib.h>

bool copies_open(struct copies *copies, const struct schedule *schedule, struct error *error)
{
    copies->first = calloc(schedule->stages + 1u, sizeof *copies->first);
    copies->ranks = calloc((size_t)schedule->stages * schedule->route_count + 1, sizeof *copies->ranks);
    if (!copies->first || !copies->ranks) {
        copies_close(copies);
        return error_no_memory(error, "the copies of a schedule's stages");
    }
    uint32_t count = 0;
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        copies->first[stage] = copies->first[stage + 1] = count;
        for (uint32_t route = 0; route < schedule->route_count; route++) {
            const uint32_t rank = schedule->routes[(size_t)route * schedule->stages + stage];
            if (copies_index(copies, stage, rank) == NO_COPY)
                copies->ranks[count++] = rank;
            copies->first[stage + 1] = count;
        }
    }
    return true;
}

void copies_close(struct copies *copies)
{
    free(copies->first);
    free(copies->ranks);
    *copies = (struct copies){ 0 };
}

uint32_t copies_index(const struct copies *copies, uint32_t stage, uint32_t rank)
{
    for (uint32_t copy = 0; copy < copies_count(copies, stage); copy++)
        if (copies_ranks(copies, stage)[copy] == rank)
            return copy;
    return NO_COPY;
}

uint32_t copies_place(const struct copies *copies, uint32_t stage, uint32_t rank)
{
    const uint32_t copy = copies_index(copies, stage, rank);
    assert(copy != NO_COPY);
    return copies->first[stage] + copy;
}
