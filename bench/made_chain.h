// Synthetic chains of layers, the same on every machine.
#ifndef BENCH_MADE_CHAIN_H
#define BENCH_MADE_CHAIN_H

#include <stdio.h>
#include <string.h>

#include "common/random.h"
#include "profiler/profile.h"

// A chain of `layers` equal blocks of a transformer, or of layers of 0.2 to 3 ms. Freed by profile_free(); NULL with
// `error`.
static inline struct profile *made_chain(const char *name, uint32_t layers, bool is_uniform, struct error *error)
{
    struct profile *profile = profile_create(name, "fp32", 1, layers, error);
    uint64_t seed = 1;
    for (uint32_t l = 0; profile && l < layers; l++) {
        const uint64_t forward = is_uniform ? 1000000 : 200000 + random_below(&seed, 2800000);
        const uint64_t size = is_uniform ? 16 : 1 + random_below(&seed, 31);
        char layer[20];
        snprintf(layer, sizeof layer, "l%u", l);
        profile->layers[l] = (struct profile_layer){
            .name = strdup(layer), .kind = strdup("block"), .forward_ns = forward,
            .backward_input_ns = forward, .backward_weight_ns = forward, .backward_ns = 2 * forward,
            .parameter_bytes = size << 20, .output_bytes = 4 << 20, .saved_bytes = size << 20,
            .input_kept = INPUT_KEPT_BOTH, .workspace_bytes = 1 << 20, .backward_workspace_bytes = 2 << 20 };
    }
    if (profile && profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}

#endif
