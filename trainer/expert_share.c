#include "trainer/expert_share.h"

#include "common/expert_rules.h"
#include "models/router.h"

static uint64_t inner_operations(const struct layer *shard, uint64_t inner)
{
    return 2 * (uint64_t)expert_matrices((double)shard->shape.out, (double)inner, shard->shape.experts.is_swiglu);
}

// Experts that are not copied, of the member with most.
static uint64_t others_of(const struct expert_shape *experts)
{
    return experts->most - experts->copies;
}

struct expert_share expert_share_of(const struct layer *shard, const struct profile_routing *routing)
{
    const struct expert_shape *experts = &shard->shape.experts;
    char name[LAYER_NAME_SIZE];
    layer_experts_name(shard, name);
    const struct layer_routing *counted = routing_find(routing, name);
    const uint64_t rows = shard->shape.whole_batch * shard->shape.sequence, members = shard->shape.members;
    const uint64_t pairs = rows * experts->router.top, capacity = router_capacity(shard, rows);
    const bool has_products = layer_has_experts(shard);
    const double own = has_products ? (double)(inner_operations(shard, experts->inner) * pairs) : 0;
    const double beside = shard->kind == &layer_products ? 0
                              : (double)(rows * (2 * shard->shape.out * experts->router.experts
                                                 + inner_operations(shard, experts->shared)));
    struct expert_share share = { .products = own / (own + beside),
                                  .sent = (double)(others_of(experts) * members) / (double)experts->router.experts };
    share.slowest = share.sent + (double)experts->copies / (double)experts->router.experts;
    uint32_t owners[ROUTER_EXPERTS];
    if (!counted || routing->batches == 0 || counted->pairs == 0 || counted->experts != experts->router.experts)
        return share;
    for (size_t e = 0; e < experts->router.experts; e++)
        owners[e] = experts->owners[e] == ROW_COPIED ? (uint32_t)ROUTING_COPIED : experts->owners[e];
    const struct routing_load load = routing_load(routing, counted, owners, (uint32_t)members, capacity);
    const double all = (double)(counted->pairs * routing->batches);
    share.slowest = (double)(load.slowest * members) / all;
    share.sent = (double)(load.sent * members) / all;
    share.dropped = (double)load.dropped / all;
    return share;
}

double expert_stretch(const struct layer *shard, const struct profile_routing *routing)
{
    const struct expert_share share = expert_share_of(shard, routing);
    return 1 + share.products * (share.slowest / expert_share_of(shard, NULL).slowest - 1);
}
