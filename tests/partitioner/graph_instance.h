// Random planning problems of graphs, whose orders brute_orders.h goes through.
#ifndef TESTS_PARTITIONER_GRAPH_INSTANCE_H
#define TESTS_PARTITIONER_GRAPH_INSTANCE_H

#include "tests/partitioner/brute_orders.h"
#include "tests/partitioner/resolve.h"

struct graph_instance {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static const struct graph_kind {
    const char *schedule;
    uint32_t most_ranks, chunks, most_layers;
} graph_kinds[] = {
    { "gpipe", 4, 1, 9 },       { "1f1b", 4, 1, 9 },      { "zb-h1", 3, 1, 9 },
    { "interleaved", 2, 2, 7 }, { "pipedream", 3, 1, 7 },
};

// Capacities around what some plan takes: even parts of the layers in the profile's order.
static inline void graph_set_memory(struct graph_instance *instance, bool ample, uint64_t *seed)
{
    struct error error = { 0 };
    const struct search_request *request = &instance->request;
    struct slots *slots =
        predict_slots(request->schedule, request->ranks, request->chunks, request->micro_batches, &error);
    assert_good(slots, error);
    const uint32_t layers = (uint32_t)instance->profile->layer_count;
    for (uint32_t r = 0; r < request->ranks; r++) {
        const uint32_t first = layers * r / request->ranks, end = layers * (r + 1) / request->ranks;
        const struct stage_bytes bytes = stage_bytes_at(instance->profile, first, end, NULL, 0, &request->storage, 1);
        const uint64_t peak = request->chunks * stage_memory_of(&bytes, &slots[r]).peak_bytes;
        instance->cluster->devices[r].memory_bytes =
            ample ? 8 * peak + 1 : 1 + peak / 2 + peak / 8 * random_below(seed, 7);
    }
    free(slots);
}

// Where memory is tight the twin has all orders and segments of a stage to go through.
enum { GRAPH_TIGHT_LAYERS = 7 };

static inline struct graph_instance graph_instance_create(uint64_t *seed)
{
    struct error error = { 0 };
    const struct graph_kind *kind = &graph_kinds[random_below(seed, sizeof graph_kinds / sizeof graph_kinds[0])];
    const uint32_t ranks = kind->chunks > 1 ? kind->most_ranks : 1 + (uint32_t)random_below(seed, kind->most_ranks);
    const uint32_t least = ranks * kind->chunks + 1;
    const bool ample = random_below(seed, 3) == 0;
    const uint32_t most = ample || kind->most_layers < GRAPH_TIGHT_LAYERS ? kind->most_layers : GRAPH_TIGHT_LAYERS;
    const uint32_t layers = least + (uint32_t)random_below(seed, most - least + 1);
    struct graph_instance instance = { .profile = small_random_dag(seed, layers, 2 + (uint32_t)random_below(seed, 3),
                                                             random_below(seed, 3) ? 1000 : 4) };
    if (random_below(seed, 5) == 0) {
        instance.profile->tied = malloc(sizeof instance.profile->tied[0]);
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        instance.profile->tied[0] =
            (struct edge){ from, from + 1 + (uint32_t)random_below(seed, 2) % (layers - from - 1) };
        instance.profile->tied_count = 1;
    }
    if (random_below(seed, 6) == 0) {
        instance.profile->no_cut_after = malloc(sizeof(uint32_t));
        instance.profile->no_cut_after[0] = (uint32_t)random_below(seed, layers);
        instance.profile->no_cut_count = 1;
    }
    assert_good(profile_rehash(instance.profile, &error), error);
    const uint64_t rate = random_below(seed, 3) == 0 ? 1000000000 : 1000000000000;
    instance.cluster = cluster_uniform(ranks, 1, random_below(seed, 200), rate, &error);
    assert_good(instance.cluster, error);
    if (random_below(seed, 4) == 0)
        for (uint32_t r = 0; r < ranks; r++)
            instance.cluster->devices[r].speed_permille = 500 + 250 * random_below(seed, 4);
    instance.request = (struct search_request){ .profile = instance.profile, .cluster = instance.cluster,
                                                .schedule = kind->schedule, .ranks = ranks, .chunks = kind->chunks,
                                                .micro_batches = ranks * (1 + (uint32_t)random_below(seed, 2)),
                                                .storage.optimizer = (enum optimizer_kind)random_below(seed, 3) };
    resolve(&instance.request);
    graph_set_memory(&instance, ample, seed);
    return instance;
}

static inline void graph_instance_clear(struct graph_instance *instance)
{
    profile_free(instance->profile);
    cluster_free(instance->cluster);
}

#endif
