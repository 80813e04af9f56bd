#include "partitioner/arrangement/arrangement_sums.h"

#include "common/number.h"
#include "partitioner/arrangement/arrangement_floor.h"
#include "partitioner/holding_cost.h"

static uint64_t between(const struct arrangement_sum *sum, uint32_t first, uint32_t end)
{
    return totals_between(sum->least, sum->most, first, end);
}

uint64_t arrangement_sums_least(const struct arrangement_sums *sums, uint32_t first, uint32_t end, uint32_t ranks,
                                uint64_t ahead, uint64_t capacity)
{
    const struct stage_states states = { .weights = between(&sums->weights, first, end),
                                         .optimizer = between(&sums->optimizer, first, end) };
    const struct held_bytes held = holding_bytes(sums->holding, ranks, &states);
    const uint64_t fixed = add_clamped(add_clamped(held.weights, held.gradients), held.optimizer);
    if (fixed > capacity)
        return UINT64_MAX;
    const uint64_t room = (capacity - fixed) / ahead;
    uint64_t least = 0;
    if (between(&sums->saved, first, end) <= room)
        return 0;
    for (int k = 0; k < ARRANGEMENT_PRICES; k++) {
        const uint64_t cost = between(&sums->cost[k], first, end);
        const double spent = sums->price[k] * (double)room * (1 + 1e-9) + 2;
        if (spent < (double)cost && cost - (uint64_t)spent > least)
            least = cost - (uint64_t)spent;
    }
    return least;
}
