#include "partitioner/cost/within.h"

#include <string.h>

#include "common/number.h"
#include "partitioner/cost/stage_cost.h"

uint64_t within_scaled_ns(const struct plan *plan, const struct plan_stage *stage, uint64_t ns)
{
    uint64_t most = 0;
    for (size_t d = 0; d < plan_stage_seats(stage); d++)
        most = max_u64(most, stage_scaled_ns(ns, plan->cluster->devices[stage->devices[d]].speed_permille));
    return most;
}

uint64_t within_ns(const struct plan *plan, const struct profile *profile, uint32_t s)
{
    const struct plan_stage *stage = &plan->stages[s];
    uint64_t sum = 0;
    for (uint32_t i = 0; stage->variant && i < stage->end - stage->first; i++) {
        const size_t l = profile_find_layer(profile, stage->layers[i]);
        const size_t count = l < profile->layer_count ? profile->layers[l].variant_count : 0;
        for (size_t v = 0; v < count; v++)
            if (strcmp(profile->layers[l].variants[v].layer.name, stage->variant) == 0)
                sum += profile->layers[l].variants[v].communication_ns;
    }
    const uint64_t received_ns = s > 0 ? plan->stages[s - 1].costs.exchange_ns : 0;
    return within_scaled_ns(plan, stage, sum > received_ns ? sum - received_ns : 0);
}
