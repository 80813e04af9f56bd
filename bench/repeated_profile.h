// A graph repeated several times in sequence: larger graphs of the same kind as real ones.
#ifndef BENCH_REPEATED_PROFILE_H
#define BENCH_REPEATED_PROFILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/profile.h"

// Outputs that no layer of the graph reads go to the first layer of the next copy.
static inline void repeat_links(const struct profile *once, struct profile *profile, uint32_t first, bool is_last)
{
    const uint32_t count = (uint32_t)once->layer_count;
    for (uint32_t l = 0; l < count; l++) {
        bool is_read = false;
        for (size_t e = 0; e < once->edge_count; e++) {
            if (once->edges[e].from != l)
                continue;
            profile->edges[profile->edge_count++] = (struct edge){ first + l, first + once->edges[e].to };
            is_read = true;
        }
        if (!is_read && !is_last)
            profile->edges[profile->edge_count++] = (struct edge){ first + l, first + count };
    }
}

// Repeats a graph. It must have no tied layers, shapes, spreads and the like; imported ones have none. NULL with
// `error`.
static inline struct profile *repeated_profile(const struct profile *once, uint32_t times, struct error *error)
{
    const uint32_t count = (uint32_t)once->layer_count;
    struct profile *profile = profile_create(once->model, once->dtype, once->micro_batch, (size_t)count * times, error);
    if (profile)
        profile->edges = calloc(times * (once->edge_count + count), sizeof profile->edges[0]);
    bool good = profile && profile->edges;
    for (uint32_t i = 0; good && i < times; i++) {
        for (uint32_t l = 0; l < count; l++) {
            struct profile_layer *layer = &profile->layers[i * count + l];
            char name[200];
            snprintf(name, sizeof name, "%u.%s", i, once->layers[l].name);
            *layer = once->layers[l];
            layer->name = strdup(name);
            layer->kind = strdup(once->layers[l].kind);
        }
        repeat_links(once, profile, i * count, i + 1 == times);
        profile->is_chain = false;
    }
    if (good && profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}

#endif
