// Until all groups are known, the number of a group is that of one of its layers, its root.
#include "partitioner/search/layer_groups.h"

#include <stdlib.h>

#include "common/arrays.h"
#include "partitioner/search/downsets.h"

struct merge {
    const struct profile *profile;
    struct edge *edges;
    size_t edge_count;
    uint32_t *root;   // of each layer
    uint32_t *size;   // of each root: its layers
    bool *is_free;    // of each root: whether all its layers are free
    bool *reached;    // two rows, of roots: reached forwards and backwards
    uint32_t *waits;  // of each root: edges from groups that are not placed yet
    size_t *first;    // of each root: the first of the edges that leave it, counted from 1; 0: none does
    size_t *next;     // of each edge: the one after it
    struct arrays arrays;
};

static void join(struct merge *merge, uint32_t a, uint32_t b)
{
    const uint32_t into = merge->root[a], from = merge->root[b];
    if (into == from)
        return;
    merge->size[into] += merge->size[from];
    merge->is_free[into] &= merge->is_free[from];
    for (size_t i = 0; i < merge->profile->layer_count; i++)
        if (merge->root[i] == from)
            merge->root[i] = into;
}

// Marks what is reached from a group along the edges, or against them. Edges go forwards except within groups, so
// that few rounds are enough.
static void reach(const struct merge *merge, uint32_t group, bool against, bool *reached)
{
    for (size_t i = 0; i < merge->profile->layer_count; i++)
        reached[i] = i == group;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t e = 0; e < merge->edge_count; e++) {
            const struct edge edge = merge->edges[against ? merge->edge_count - 1 - e : e];
            const uint32_t from = merge->root[against ? edge.to : edge.from];
            const uint32_t to = merge->root[against ? edge.from : edge.to];
            if (reached[from] && !reached[to])
                changed = reached[to] = true;
        }
    }
}

// Every cycle between groups goes through a group of several layers.
static void join_cycles(struct merge *merge)
{
    const uint32_t layers = (uint32_t)merge->profile->layer_count;
    bool *forwards = merge->reached, *backwards = merge->reached + layers;
    for (uint32_t group = 0; group < layers; group++) {
        if (merge->root[group] != group || merge->size[group] == 1)
            continue;
        reach(merge, group, false, forwards);
        reach(merge, group, true, backwards);
        for (uint32_t i = 0; i < layers; i++)
            if (merge->root[i] == i && forwards[i] && backwards[i])
                join(merge, group, i);
    }
}

// The only other group with which the group of a layer has an edge, or UINT32_MAX.
static uint32_t only_neighbour(const struct merge *merge, uint32_t layer)
{
    const uint32_t root = merge->root[layer];
    uint32_t found = UINT32_MAX;
    for (size_t e = 0; e < merge->edge_count; e++) {
        const uint32_t from = merge->root[merge->edges[e].from], to = merge->root[merge->edges[e].to];
        const uint32_t other = from == root ? to : from;
        if ((from != root && to != root) || other == root || other == found)
            continue;
        if (found != UINT32_MAX)
            return UINT32_MAX;
        found = other;
    }
    return found;
}

static void join_free(struct merge *merge)
{
    const uint32_t layers = (uint32_t)merge->profile->layer_count;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < layers; i++) {
            const uint32_t other =
                merge->is_free[i] && merge->root[i] == i ? only_neighbour(merge, i) : UINT32_MAX;
            if (other == UINT32_MAX)
                continue;
            join(merge, other, i);
            changed = true;
        }
    }
}

// Notes for the groups that wait for this one that it is placed. Returns the least root that waits for none any more,
// or the one behind this root if that is less.
static uint32_t release(struct merge *merge, uint32_t root)
{
    uint32_t least = root + 1;
    for (size_t e = merge->first[root]; e > 0; e = merge->next[e - 1]) {
        const uint32_t to = merge->root[merge->edges[e - 1].to];
        if (--merge->waits[to] == 0 && to < least)
            least = to;
    }
    return least;
}

// Numbers the groups in an order in which they can run. If several can, the one whose root is first is next.
static void number(struct merge *merge, uint32_t *group_of)
{
    const uint32_t layers = (uint32_t)merge->profile->layer_count;
    uint32_t count = 0;
    for (size_t e = 0; e < merge->edge_count; e++) {
        const uint32_t from = merge->root[merge->edges[e].from], to = merge->root[merge->edges[e].to];
        if (from == to)
            continue;
        merge->waits[to]++;
        merge->next[e] = merge->first[from];
        merge->first[from] = e + 1;
    }
    for (uint32_t i = 0; i < layers;) {
        const bool is_next = merge->root[i] == i && merge->waits[i] == 0;
        if (is_next) {
            merge->waits[i] = UINT32_MAX;  // it is placed
            group_of[i] = count++;
        }
        i = is_next ? release(merge, i) : i + 1;
    }
    for (uint32_t i = 0; i < layers; i++)
        group_of[i] = group_of[merge->root[i]];
}

static bool create(struct merge *merge, const struct profile *profile, const bool *is_free, struct error *error)
{
    const uint32_t layers = (uint32_t)profile->layer_count;
    *merge = (struct merge){ .profile = profile };
    merge->edges = arrays_keep(&merge->arrays, downsets_edges(profile, NULL, &merge->edge_count, error));
    merge->root = arrays_add(&merge->arrays, layers, sizeof merge->root[0]);
    merge->size = arrays_add(&merge->arrays, layers, sizeof merge->size[0]);
    merge->is_free = arrays_add(&merge->arrays, layers, sizeof merge->is_free[0]);
    merge->reached = arrays_add(&merge->arrays, (size_t)2 * layers, sizeof merge->reached[0]);
    merge->waits = arrays_add(&merge->arrays, layers, sizeof merge->waits[0]);
    merge->first = arrays_add(&merge->arrays, layers, sizeof merge->first[0]);
    merge->next = arrays_add(&merge->arrays, merge->edge_count, sizeof merge->next[0]);
    for (uint32_t i = 0; !merge->arrays.failed && i < layers; i++) {
        merge->root[i] = i;
        merge->size[i] = 1;
        merge->is_free[i] = is_free && is_free[i];
    }
    return !merge->arrays.failed;
}

static void join_together(struct merge *merge, bool tied)
{
    const struct profile *profile = merge->profile;
    for (size_t i = 0; tied && i < profile->tied_count; i++)
        join(merge, profile->tied[i].from, profile->tied[i].to);
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < profile->layer_count)
            join(merge, profile->no_cut_after[i], profile->no_cut_after[i] + 1);
}

uint32_t *layer_groups(const struct profile *profile, bool tied, const bool *is_free, struct error *error)
{
    struct merge merge;
    uint32_t *group_of = calloc(profile->layer_count + 1, sizeof group_of[0]);
    if (create(&merge, profile, is_free, error) && group_of) {
        join_together(&merge, tied);
        join_cycles(&merge);
        join_free(&merge);
        number(&merge, group_of);
    } else {
        free(group_of);
        group_of = NULL;
        error_no_memory(error, "the nodes of a graph");
    }
    arrays_clear(&merge.arrays);
    return group_of;
}
