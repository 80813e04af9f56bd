// Synthetic graphs, the same on every machine. Layers take 0.02 to 0.6 ms. Each layer reads the one before it; 40 of
// 100 also read another one, up to 8 back.
#ifndef BENCH_MADE_GRAPH_H
#define BENCH_MADE_GRAPH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "profiler/profile.h"

static inline struct profile *made_graph(uint32_t layers, uint64_t seed, struct error *error)
{
    enum { FARTHEST = 8 };
    struct profile *profile = profile_create("graph", "fp32", 1, layers, error);
    if (!profile)
        return NULL;
    profile->edges = calloc(2 * (size_t)layers, sizeof profile->edges[0]);
    uint8_t *skips = calloc(layers, sizeof skips[0]);
    for (uint32_t l = 0; profile->edges && skips && l < layers; l++) {
        char name[20];
        snprintf(name, sizeof name, "l%u", l);
        const uint64_t forward = 20000 + random_below(&seed, 580000), size = random_below(&seed, 40);
        profile->layers[l] = (struct profile_layer){
            .name = strdup(name), .kind = strdup("made"), .forward_ns = forward, .backward_input_ns = forward,
            .backward_weight_ns = forward / (1 + random_below(&seed, 3)), .backward_ns = 0,
            .parameter_bytes = random_below(&seed, 3) ? 0 : size << 18,
            .output_bytes = (1 + random_below(&seed, 32)) << 16,
            .saved_bytes = size << 16, .input_kept = (enum input_kept)random_below(&seed, 3),
            .workspace_bytes = random_below(&seed, 8) << 16, .backward_workspace_bytes = random_below(&seed, 8) << 16 };
        profile->layers[l].backward_ns = profile->layers[l].backward_input_ns + profile->layers[l].backward_weight_ns;
        if (l > FARTHEST && random_below(&seed, 100) < 40)
            skips[l] = (uint8_t)(2 + random_below(&seed, FARTHEST - 1));
    }
    for (uint32_t from = 0; profile->edges && skips && from < layers; from++)
        for (uint32_t to = from + 1; to < layers && to <= from + FARTHEST; to++)
            if (to == from + 1 || skips[to] == to - from)
                profile->edges[profile->edge_count++] = (struct edge){ from, to };
    const bool good = profile->edges && skips ? profile_rehash(profile, error) : error_no_memory(error, "a graph");
    free(skips);
    if (good)
        return profile;
    profile_free(profile);
    return NULL;
}

#endif
