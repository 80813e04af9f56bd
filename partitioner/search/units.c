#include "partitioner/search/units.h"

#include <stdlib.h>

static uint32_t unit_end(const struct search_units *units, uint32_t layer, uint32_t end)
{
    const uint32_t unit = units->of[layer];
    while (layer < end && units->of[layer] == unit)
        layer++;
    return layer;
}

size_t units_recomputed(const struct search_units *units, uint32_t first, uint32_t end, struct segment *segments)
{
    size_t count = 0;
    for (uint32_t layer = first, next; layer < end && count < units->recomputed; layer = next) {
        next = unit_end(units, layer, end);
        if (units->is_block[layer])
            segments[count++] = (struct segment){ layer, next };
    }
    return count;
}

uint64_t units_recompute_ns(const struct search_units *units, const struct intervals *intervals, uint32_t first,
                            uint32_t end)
{
    uint64_t ns = 0;
    uint32_t count = 0;
    for (uint32_t layer = first, next; layer < end && count < units->recomputed; layer = next) {
        next = unit_end(units, layer, end);
        if (units->is_block[layer]) {
            ns += interval_recompute_ns(intervals, layer, next);
            count++;
        }
    }
    return ns;
}

bool units_choice(const struct search_units *units, struct intervals *intervals, uint32_t first, uint32_t end,
                  const struct slots *slots, struct recompute_choice *choice, struct error *error)
{
    *choice = (struct recompute_choice){ .segments = malloc(((size_t)end - first + 1) * sizeof choice->segments[0]) };
    if (!choice->segments)
        return error_no_memory(error, "the choice of what to recompute");
    choice->count = units_recomputed(units, first, end, choice->segments);
    choice->forward_ns = units_recompute_ns(units, intervals, first, end);
    const struct stage_bytes whole = stage_bytes_at(intervals->profile, first, end, choice->segments, choice->count,
                                                    &intervals->storage, intervals->replicas);
    const struct stage_bytes bytes = stage_bytes_of_split(whole, intervals->splits);
    choice->workspace_bytes = stage_workspace(&bytes, slots);
    choice->bytes = stage_memory_of(&bytes, slots).peak_bytes - choice->workspace_bytes;
    choice->away = stage_away_of(&whole, intervals->splits, slots);
    return true;
}
