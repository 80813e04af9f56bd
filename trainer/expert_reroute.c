#include "trainer/expert_reroute.h"

#include <math.h>

#include "trainer/expert_share.h"
#include "trainer/measure_shards.h"

// How much more time a placement takes by the new routing than by the old one.
struct change {
    double products, exchanges;
};

static bool find_shard(const struct layer *whole, const char *variant, struct layer *shard, struct error *error)
{
    const struct sharding sharding = variant_sharding(variant);
    return sharding.owns_rows && sharding.places && layer_shard(whole, sharding, 0, shard, error);
}

static struct change change_of(const struct layer *shard, const struct profile_routing *before,
                               const struct profile_routing *after)
{
    const double sent = expert_share_of(shard, before).sent;
    return (struct change){ expert_stretch(shard, after) / expert_stretch(shard, before),
                            sent > 0 ? expert_share_of(shard, after).sent / sent : 1 };
}

static uint64_t changed(uint64_t ns, double by)
{
    return (uint64_t)llround((double)ns * by);
}

static void reprice(struct profile_variant *variant, const struct layer *shard, struct change by,
                    const struct profile_routing *routing)
{
    const struct expert_share share = expert_share_of(shard, routing);
    struct profile_layer *layer = &variant->layer;
    layer->forward_ns = changed(layer->forward_ns, by.products);
    layer->backward_input_ns = changed(layer->backward_input_ns, by.products);
    layer->backward_weight_ns = changed(layer->backward_weight_ns, by.products);
    layer->backward_ns = layer->has_backward ? changed(layer->backward_ns, by.products)
                                             : layer->backward_input_ns + layer->backward_weight_ns;
    variant->communication_ns = changed(variant->communication_ns, by.exchanges);
    if (!layer_has_experts(shard))
        return;
    variant->slowest_milli = (uint64_t)llround(1000 * share.slowest);
    variant->dropped_ppm = (uint64_t)llround(1e6 * share.dropped);
}

static bool reroute_layer(struct profile_layer *layer, const struct layer *whole, const char *ran,
                          const struct profile_routing *before, const struct profile_routing *after,
                          struct error *error)
{
    struct error ignored = { 0 };
    struct change base = { 1, 1 };
    struct layer shard;
    char name[LAYER_NAME_SIZE];
    layer_experts_name(whole, name);
    if (routing_find(after, name)->experts != whole->shape.experts.router.experts)
        return error_set(error, "the run has counted other experts than layer %s has", whole->name);
    if (ran && find_shard(whole, ran, &shard, &ignored))
        base = change_of(&shard, before, after);
    for (size_t v = 0; v < layer->variant_count; v++) {
        struct profile_variant *variant = &layer->variants[v];
        if (!find_shard(whole, variant->layer.name, &shard, &ignored))
            continue;
        const struct change change = change_of(&shard, before, after);
        reprice(variant, &shard, (struct change){ change.products / base.products, change.exchanges / base.exchanges },
                after);
    }
    return true;
}

bool expert_reroute(struct profile *profile, const struct model *model, const char *ran,
                    const struct profile_routing *routing, struct error *error)
{
    struct profile_routing *copy = routing_copy(routing);
    bool good = copy || error_no_memory(error, "the routing of experts");
    for (size_t l = 0; good && l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const size_t found = profile_find_layer(profile, layer->name);
        char name[LAYER_NAME_SIZE];
        layer_experts_name(layer, name);
        if (layer_is_of_experts(layer) && found < profile->layer_count && routing_find(routing, name))
            good = reroute_layer(&profile->layers[found], layer, ran, profile->routing, routing, error);
    }
    if (!good) {
        routing_free(copy);
        return false;
    }
    routing_free(profile->routing);
    profile->routing = copy;
    return profile_rehash(profile, error);
}
