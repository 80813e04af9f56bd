#include "partitioner/experts/copy_price.h"

#include <math.h>

#include "common/number.h"

enum { LEAST_GAIN = 20 };  // one over the part of an even share that a copy has to gain

// The time of an update's sum of one expert's gradients, which are floats: as many transfers as there are others, over
// the slowest link between members. An expert has its part of the layer's parameters, or a bit less.
static uint64_t sum_ns(const struct copy_pricing *pricing, const struct profile_layer *layer, uint32_t experts)
{
    const uint64_t numbers = layer->parameter_bytes / profile_dtype_bytes(pricing->profile->dtype);
    const uint64_t bytes = round_to_256(numbers * sizeof(float) / experts);
    const struct cluster *cluster = pricing->cluster;
    const uint64_t last = min_u64(pricing->members, cluster->device_count) - 1;
    const struct cluster_level *link = &cluster->levels[cluster_level_between(cluster, 0, (size_t)last)];
    return multiply_clamped(transfer_ns(bytes, link->bytes_per_second, link->latency_ns), pricing->members - 1);
}

static uint64_t backward_ns(const struct profile_layer *layer)
{
    return layer->has_backward ? layer->backward_ns : add_clamped(layer->backward_input_ns, layer->backward_weight_ns);
}

// The pairs of a micro-batch that a device does in so much time of an update.
static double pairs_in(const struct copy_pricing *pricing, const struct layer_routing *layer,
                       const struct profile_layer *timed)
{
    const uint64_t all_ns = add_clamped(timed->forward_ns, backward_ns(timed));
    const double ns = (double)sum_ns(pricing, timed, layer->experts) / (double)pricing->micro_batches;
    return all_ns > 0 ? ns * (double)layer->pairs / (double)all_ns : 0;
}

uint64_t copy_price(const struct copy_pricing *pricing, const struct layer_routing *layer)
{
    const size_t number = profile_find_layer(pricing->profile, layer->layer);
    const uint64_t batches = pricing->profile->routing->batches;
    const double least = (double)layer->pairs / pricing->members / LEAST_GAIN;
    const double of_links = pricing->cluster && pricing->members > 1
        ? pairs_in(pricing, layer, &pricing->profile->layers[number]) : 0;
    const double pairs = (of_links > least ? of_links : least) * (double)batches;
    return pairs < (double)(UINT64_MAX >> 24) ? (uint64_t)ceil(pairs) : UINT64_MAX >> 24;
}
