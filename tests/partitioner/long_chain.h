// Models of many layers, the same ones for a seed: a chain, or a graph in which layers also read some that stand before
// the last one. Too large for a twin that tries everything.
#ifndef TESTS_PARTITIONER_LONG_CHAIN_H
#define TESTS_PARTITIONER_LONG_CHAIN_H

#include <stdio.h>
#include <string.h>

#include "profiler/profile.h"
#include "tests/test.h"

static inline struct profile_layer long_chain_layer(uint64_t *seed, uint32_t number)
{
    char name[20];
    snprintf(name, sizeof name, "layer%u", number);
    const uint64_t forward = 20000 + random_below(seed, 280000), size = 1 + random_below(seed, 31);
    return (struct profile_layer){ .name = strdup(name), .kind = strdup("made"), .forward_ns = forward,
                                   .backward_input_ns = forward, .backward_weight_ns = forward,
                                   .backward_ns = 2 * forward, .parameter_bytes = size << 16,
                                   .output_bytes = (1 + random_below(seed, 8)) << 16, .saved_bytes = size << 16,
                                   .input_kept = INPUT_KEPT_BOTH, .workspace_bytes = 1 << 16,
                                   .backward_workspace_bytes = 2 << 16 };
}

// `skips`: of a hundred layers so many read one more, up to eight in front.
static inline struct profile *long_chain(uint64_t seed, uint32_t layers, uint32_t skips)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("long", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->is_chain = skips == 0;
    profile->edges = skips ? calloc(2 * (size_t)layers, sizeof profile->edges[0]) : NULL;
    bool *reads = calloc((size_t)layers * 8, sizeof reads[0]);
    assert_non_null(reads);
    for (uint32_t l = 0; l < layers; l++) {
        profile->layers[l] = long_chain_layer(&seed, l);
        if (skips && l > 2 && random_below(&seed, 100) < skips)
            reads[(size_t)l * 8 + random_below(&seed, l < 8 ? l - 1 : 7)] = true;
    }
    for (uint32_t from = 0; skips && from < layers; from++)
        for (uint32_t to = from + 1; to < layers && to <= from + 8; to++)
            if (to == from + 1 || reads[(size_t)to * 8 + (to - from - 2)])
                profile->edges[profile->edge_count++] = (struct edge){ from, to };
    free(reads);
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

#endif
