#include <assert.h>

#include "common/number.h"
#include "partitioner/cost/layer_memory.h"
#include "partitioner/cost/stage_cost.h"

bool stage_brings_copy(const struct profile *profile, uint32_t first, uint32_t end, size_t i)
{
    const struct edge pair = profile->one_owner[i];
    bool brings = first <= pair.to && pair.to < end && (pair.from < first || end <= pair.from);
    for (size_t k = 0; brings && k < i; k++)  // sorted, so other readers in front of this one come before it
        brings = profile->one_owner[k].from != pair.from || profile->one_owner[k].to < first;
    return brings;
}

uint64_t stage_layer_weights(const struct profile *profile, uint32_t first, uint32_t end, uint32_t layer)
{
    uint64_t bytes = layer_memory_of(&profile->layers[layer]).weights;
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (profile->one_owner[i].to == layer && stage_brings_copy(profile, first, end, i))
            bytes = add_clamped(bytes, layer_memory_of(&profile->layers[profile->one_owner[i].from]).weights);
    return bytes;
}

uint64_t stage_scaled_ns(uint64_t ns, uint64_t speed_permille)
{
    assert(speed_permille > 0);
    if (speed_permille == 1000)
        return ns;
    const unsigned __int128 scaled = ((unsigned __int128)ns * 1000 + speed_permille - 1) / speed_permille;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}
