#include "trainer/expert_share.h"

#include <string.h>

#include "models/router.h"

static const struct layer_routing *routing_of(const struct layer *layer, const struct profile_routing *routing)
{
    for (size_t l = 0; routing && l < routing->layer_count; l++)
        if (strcmp(routing->layers[l].layer, layer->name) == 0)
            return &routing->layers[l];
    return NULL;
}

// Rows of the slowest member in one micro-batch, and what is dropped of it.
static uint64_t slowest_rows(const struct layer *shard, const uint32_t *counts, size_t capacity, uint64_t *dropped)
{
    const struct expert_shape *experts = &shard->shape.experts;
    uint64_t rows[ROW_MEMBERS] = { 0 }, most = 0;
    for (size_t e = 0; e < experts->router.experts; e++) {
        const uint64_t kept = capacity > 0 && counts[e] > capacity ? capacity : counts[e];
        uint64_t *sum = &rows[experts->owners[e]];
        *sum += kept;
        *dropped += counts[e] - kept;
        most = *sum > most ? *sum : most;
    }
    return most;
}

static uint64_t inner_operations(const struct layer *shard, uint64_t inner)
{
    const uint64_t products = shard->shape.experts.is_swiglu ? 3 : 2;
    return 2 * products * shard->shape.out * inner;
}

struct expert_share expert_share_of(const struct layer *shard, const struct profile_routing *routing)
{
    const struct expert_shape *experts = &shard->shape.experts;
    const struct layer_routing *counted = routing_of(shard, routing);
    const uint64_t rows = shard->shape.whole_batch * shard->shape.sequence, members = shard->shape.members;
    const uint64_t pairs = rows * experts->router.top, capacity = router_capacity(shard, rows);
    const double own = (double)(inner_operations(shard, experts->inner) * pairs);
    const double others = (double)(rows * (2 * shard->shape.out * experts->router.experts
                                           + inner_operations(shard, experts->shared)));
    struct expert_share share = { .products = own / (own + others),
                                  .slowest = (double)(experts->most * members) / (double)experts->router.experts };
    uint64_t slowest = 0, dropped = 0;
    if (!counted || routing->batches == 0 || counted->pairs == 0)
        return share;
    for (uint64_t b = 0; b < routing->batches; b++)
        slowest += slowest_rows(shard, counted->counts + b * counted->experts, capacity, &dropped);
    const double all = (double)(counted->pairs * routing->batches);
    share.slowest = (double)(slowest * members) / all;
    share.dropped = (double)dropped / all;
    return share;
}
