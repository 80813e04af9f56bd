// Stages that differ: times within [least, least + spread), and bytes of which some, all or none stay after I.
#ifndef TESTS_SCHEDULES_RANDOM_STAGES_H
#define TESTS_SCHEDULES_RANDOM_STAGES_H

#include "common/random.h"
#include "schedules/schedule.h"

static inline void random_stages(struct cost_row *costs, uint32_t stages, uint64_t least, uint64_t spread,
                                 uint64_t *seed)
{
    for (uint32_t s = 0; s < stages; s++) {
        const uint64_t i = least + random_below(seed, spread), w = least + random_below(seed, spread);
        costs[s] = (struct cost_row){ .forward_ns = least + random_below(seed, spread), .backward_input_ns = i,
                                      .backward_weight_ns = w, .backward_ns = i + w,
                                      .kept_forward_bytes = 20 + random_below(seed, 80) };
        costs[s].kept_weight_bytes = random_below(seed, costs[s].kept_forward_bytes + 1);
    }
}

// The same where every second stage may keep more after I than after F, as most layers do that hold the gradient of
// what they gave: up to twice as much.
static inline void random_growing_stages(struct cost_row *costs, uint32_t stages, uint64_t least, uint64_t spread,
                                         uint64_t *seed)
{
    random_stages(costs, stages, least, spread, seed);
    for (uint32_t s = 0; s < stages; s++) {
        if (random_below(seed, 2))
            costs[s].kept_weight_bytes = random_below(seed, 2 * costs[s].kept_forward_bytes + 1);
    }
}

#endif
