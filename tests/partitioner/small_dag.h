// Small graphs at random, for the orders of their layers.
#ifndef TESTS_PARTITIONER_SMALL_DAG_H
#define TESTS_PARTITIONER_SMALL_DAG_H

#include "tests/partitioner/small.h"

enum { SMALL_DAG_MOST = 16 };

// A few branches that part and meet again: each layer reads from one to two of the
// last `reach` before it, so that a layer may wait long for its reader.
static inline struct profile *small_random_dag(uint64_t *seed, uint32_t layers, uint32_t reach, uint64_t most_ns)
{
    struct profile *profile = small_random_chain(seed, layers, most_ns);
    bool reads[SMALL_DAG_MOST][SMALL_DAG_MOST] = { { false } };
    for (uint32_t to = 1; to < layers; to++)
        for (uint64_t i = 0, count = 1 + random_below(seed, 2); i < count; i++)
            reads[to - 1 - random_below(seed, to < reach ? to : reach)][to] = true;
    struct edge edges[SMALL_DAG_MOST * SMALL_DAG_MOST];
    size_t count = 0;
    for (uint32_t from = 0; from < layers; from++)
        for (uint32_t to = from + 1; to < layers; to++)
            if (reads[from][to])
                edges[count++] = (struct edge){ from, to };
    small_set_edges(profile, edges, count);
    return profile;
}

// An order at random: layers in any order, each once all that it reads is there.
static inline void small_random_order(uint64_t *seed, const struct profile *profile, uint32_t *order)
{
    bool placed[SMALL_DAG_MOST] = { false };
    for (size_t at = 0; at < profile->layer_count;) {
        const uint32_t l = (uint32_t)random_below(seed, profile->layer_count);
        bool ready = !placed[l];
        for (size_t e = 0; e < profile->edge_count; e++)
            ready &= profile->edges[e].to != l || placed[profile->edges[e].from];
        if (ready)
            order[at++] = l;
        placed[l] |= ready;
    }
}

#endif
