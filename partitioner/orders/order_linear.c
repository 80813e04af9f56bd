#include "partitioner/orders/order_linear.h"

#include <stdlib.h>

#include "common/number.h"

struct placing {
    const struct profile *profile;
    enum order_kind kind;
    uint32_t *missing;  // of each layer: how many of those it reads from are not placed
    uint32_t *unread;   // and how many of its readers
    uint32_t *placed_at;  // UINT32_MAX: not yet
    uint32_t *newest;   // of each layer: the latest place of what it reads from, and 1; 0: none
};

// What crosses a cut behind this layer more than in front of it.
static int64_t growth(const struct placing *placing, uint32_t layer)
{
    const struct profile *profile = placing->profile;
    int64_t bytes = placing->unread[layer] > 0 ? (int64_t)round_to_256(profile->layers[layer].output_bytes) : 0;
    for (size_t e = 0; e < profile->edge_count; e++)
        if (profile->edges[e].to == layer && placing->unread[profile->edges[e].from] == 1)
            bytes -= (int64_t)round_to_256(profile->layers[profile->edges[e].from].output_bytes);
    return bytes;
}

// Whether `a` comes before `b`, which stands in front of it in the profile.
static bool is_better(const struct placing *placing, uint32_t a, uint32_t b)
{
    if (placing->kind == ORDER_DEPTH_FIRST)
        return placing->newest[a] > placing->newest[b];
    return growth(placing, a) < growth(placing, b);
}

static void place(struct placing *placing, uint32_t layer, uint32_t at)
{
    const struct profile *profile = placing->profile;
    placing->placed_at[layer] = at;
    for (size_t e = 0; e < profile->edge_count; e++) {
        const struct edge edge = profile->edges[e];
        if (edge.to == layer)
            placing->unread[edge.from]--;
        if (edge.from != layer)
            continue;
        placing->missing[edge.to]--;
        placing->newest[edge.to] = at + 1;
    }
}

bool order_linear(const struct profile *profile, enum order_kind kind, uint32_t *order, struct error *error)
{
    const uint32_t layers = (uint32_t)profile->layer_count;
    struct placing placing = { .profile = profile, .kind = kind };
    placing.missing = calloc(layers, sizeof placing.missing[0]);
    placing.unread = calloc(layers, sizeof placing.unread[0]);
    placing.newest = calloc(layers, sizeof placing.newest[0]);
    placing.placed_at = malloc(layers * sizeof placing.placed_at[0]);
    const bool good = placing.missing && placing.unread && placing.newest && placing.placed_at;
    for (size_t e = 0; good && e < profile->edge_count; e++) {
        placing.missing[profile->edges[e].to]++;
        placing.unread[profile->edges[e].from]++;
    }
    for (uint32_t l = 0; good && l < layers; l++)
        placing.placed_at[l] = UINT32_MAX;
    for (uint32_t at = 0; good && at < layers; at++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t l = 0; l < layers; l++)
            if (placing.placed_at[l] == UINT32_MAX && placing.missing[l] == 0
                && (best == UINT32_MAX || is_better(&placing, l, best)))
                best = l;
        order[at] = best;
        place(&placing, best, at);
    }
    free(placing.missing);
    free(placing.unread);
    free(placing.newest);
    free(placing.placed_at);
    return good || error_no_memory(error, "an order of layers");
}
