// Random graphs of a few layers, their numbers small, so that ties and limits are met.
#ifndef TESTS_PARTITIONER_RANDOM_GRAPH_H
#define TESTS_PARTITIONER_RANDOM_GRAPH_H

#include <stdio.h>
#include <string.h>

#include "profiler/profile.h"
#include "tests/test.h"

enum { RANDOM_MOST_LAYERS = 9 };

static inline struct profile_layer random_way(uint64_t *seed, const char *name, bool has_backward)
{
    struct profile_layer way = { .name = strdup(name), .forward_ns = random_below(seed, 20),
                                 .parameter_bytes = random_below(seed, 10), .saved_bytes = random_below(seed, 10) };
    way.backward_ns = has_backward ? random_below(seed, 30) : 0;
    if (random_below(seed, 4) == 0)
        way.forward_ns = way.backward_ns = way.parameter_bytes = way.saved_bytes = 0;
    way.backward_input_ns = way.backward_ns / 2;
    way.backward_weight_ns = way.backward_ns - way.backward_ns / 2;
    return way;
}

// Edges at random from lower to higher layers, or a chain; none in five has no edge at all.
static inline struct profile *random_graph(uint64_t *seed, uint32_t layers)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("random", "fp32", 1, layers, &error);
    assert_good(profile, error);
    const bool has_backward = random_below(seed, 2);
    const uint64_t sparse = 1 + random_below(seed, 4);
    profile->edges = calloc(RANDOM_MOST_LAYERS * RANDOM_MOST_LAYERS, sizeof profile->edges[0]);
    profile->is_chain = random_below(seed, 4) == 0;
    for (uint32_t i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%u", i);
        profile->layers[i] = random_way(seed, name, has_backward);
        profile->layers[i].kind = strdup("random");
        profile->layers[i].output_bytes = random_below(seed, 15);
        for (uint32_t to = i + 1; !profile->is_chain && to < layers; to++)
            if (random_below(seed, 1 + sparse) == 0)
                profile->edges[profile->edge_count++] = (struct edge){ i, to };
    }
    return profile;
}

static inline bool random_graph_has_edge(const struct profile *profile, uint32_t from, uint32_t to)
{
    for (size_t e = 0; e < profile->edge_count; e++)
        if (profile->edges[e].from == from && profile->edges[e].to == to)
            return true;
    return profile->is_chain && to == from + 1;
}

#endif
