// Which ranks hold a copy of which stage. Most stages have one; Chimera, DualPipe
// and replicated PipeDream hold a stage several times, on as many ranks, and the
// micro-batches of a route meet the copies of that route:
//
//     routes [[0, 1, 2, 3],       stage 0: ranks 0, 3       copy 0, copy 1
//             [3, 2, 1, 0]]       stage 1: ranks 1, 2
//
// Copies are numbered in the order in which the routes name them. Their gradients
// are added in that order.
#ifndef RUNTIME_COPIES_H
#define RUNTIME_COPIES_H

#include "schedules/schedule.h"

struct copies {
    uint32_t *first;  // per stage, where its ranks begin; behind the last stage, where they end
    uint32_t *ranks;
};

bool copies_open(struct copies *copies, const struct schedule *schedule, struct error *error);
void copies_close(struct copies *copies);

static inline uint32_t copies_count(const struct copies *copies, uint32_t stage)
{
    return copies->first[stage + 1] - copies->first[stage];
}

static inline const uint32_t *copies_ranks(const struct copies *copies, uint32_t stage)
{
    return &copies->ranks[copies->first[stage]];
}

// The index of a rank's copy, NO_COPY if it has none; and its place among the
// copies of all stages.
#define NO_COPY UINT32_MAX
uint32_t copies_index(const struct copies *copies, uint32_t stage, uint32_t rank);
uint32_t copies_place(const struct copies *copies, uint32_t stage, uint32_t rank);

#endif
