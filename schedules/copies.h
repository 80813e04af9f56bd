// The copies of each stage: the ranks that hold the stage, on any route.
//
//     routes   0 1 2 3        copies of stage 0   on ranks 0 and 3      numbers 0 1
//              3 2 1 0                  stage 1   on ranks 1 and 2              2 3  ...
#ifndef SCHEDULES_COPIES_H
#define SCHEDULES_COPIES_H

#include "schedules/schedule.h"

struct copies {
    uint32_t *first;     // per stage: the number of its first copy; one more at the end
    uint32_t *ranks;     // per copy; those of a stage in ascending order
    uint32_t *of_route;  // per route and stage: its copy
};

bool copies_create(struct copies *copies, const struct schedule *schedule, struct error *error);
void copies_clear(struct copies *copies);

#define NO_COPY UINT32_MAX

// The number of the copy that a rank holds, or NO_COPY.
uint32_t copies_find(const struct copies *copies, uint32_t stage, uint32_t rank);

static inline uint32_t copies_count(const struct copies *copies, uint32_t stage)
{
    return copies->first[stage + 1] - copies->first[stage];
}

#endif
