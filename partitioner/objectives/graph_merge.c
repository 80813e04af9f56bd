// Which layers are one node of a graph that is to be cut (graph_view.h). Layers that belong
// together make one first; that may close cycles, whose layers then belong together, too:
//
//     a -> b -> c      a and c are tied: {a c} reads b, which reads {a c}: all three are one
//
// A group's number is that of one of its layers, its root.
#include <stdlib.h>

#include "partitioner/objectives/graph_view.h"
#include "profiler/import_parts.h"

struct merge {
    const struct profile *profile;
    struct edge *edges;
    size_t edge_count;
    uint32_t *root;   // of each layer
    uint32_t *size;   // of each root: layers
    bool *is_free;    // of each root: all its layers are
    bool *reached;    // two rows, of roots: forwards and backwards
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

// Marks what is reached from a group along the edges, or against them. Edges go forwards but within groups, so that
// few rounds do.
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

// Every cycle between groups leads through one of several layers.
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

// The only group beside a layer's own that it has an edge with, or UINT32_MAX.
static uint32_t only_neighbour(const struct merge *merge, uint32_t layer)
{
    const uint32_t own = merge->root[layer];
    uint32_t found = UINT32_MAX;
    for (size_t e = 0; e < merge->edge_count; e++) {
        const uint32_t from = merge->root[merge->edges[e].from], to = merge->root[merge->edges[e].to];
        const uint32_t other = from == own ? to : from;
        if ((from != own && to != own) || other == own || other == found)
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

// Nodes in an order in which they can run, of several the one whose root stands first.
static uint32_t *number(const struct merge *merge, struct error *error)
{
    const uint32_t layers = (uint32_t)merge->profile->layer_count;
    struct import_link *links = calloc(merge->edge_count + 1, sizeof links[0]);
    uint32_t *node_of = calloc(layers, sizeof node_of[0]), count = 0;
    struct import_order order = { 0 };
    bool good = (links && node_of) || error_no_memory(error, "the nodes of a graph");
    for (uint32_t i = 0; good && i < layers; i++)
        if (merge->root[i] == i)
            node_of[i] = count++;
    size_t kept = 0;
    for (size_t e = 0; good && e < merge->edge_count; e++) {
        const uint32_t from = merge->root[merge->edges[e].from], to = merge->root[merge->edges[e].to];
        if (from != to)
            links[kept++] = (struct import_link){ .from = node_of[from], .to = node_of[to] };
    }
    if (good) {
        qsort(links, kept, sizeof links[0], import_compare_links);
        good = import_order_find(&order, count, links, kept, NULL, error);
    }
    for (uint32_t i = 0; good && i < layers; i++)
        if (merge->root[i] == i)
            node_of[i] = order.layer_of[node_of[i]];
    for (uint32_t i = 0; good && i < layers; i++)
        node_of[i] = node_of[merge->root[i]];
    import_order_clear(&order);
    free(links);
    if (good)
        return node_of;
    free(node_of);
    return NULL;
}

uint32_t *graph_view_merge(const struct profile *profile, const bool *is_free, struct error *error)
{
    const uint32_t layers = (uint32_t)profile->layer_count;
    struct merge merge = { .profile = profile, .root = malloc(layers * sizeof merge.root[0]),
                           .size = malloc(layers * sizeof merge.size[0]),
                           .is_free = malloc(layers * sizeof merge.is_free[0]),
                           .reached = malloc(2 * layers * sizeof merge.reached[0]) };
    merge.edges = downsets_edges(profile, &merge.edge_count, error);
    if (merge.edges && (!merge.root || !merge.size || !merge.is_free || !merge.reached))
        error_no_memory(error, "the nodes of a graph");
    const bool good = merge.edges && merge.root && merge.size && merge.is_free && merge.reached;
    for (uint32_t i = 0; good && i < layers; i++) {
        merge.root[i] = i;
        merge.size[i] = 1;
        merge.is_free[i] = is_free && is_free[i];
    }
    for (size_t i = 0; good && i < profile->tied_count; i++)
        join(&merge, profile->tied[i].from, profile->tied[i].to);
    for (size_t i = 0; good && i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < layers)
            join(&merge, profile->no_cut_after[i], profile->no_cut_after[i] + 1);
    if (good) {
        join_cycles(&merge);
        join_free(&merge);
    }
    uint32_t *node_of = good ? number(&merge, error) : NULL;
    free(merge.edges);
    free(merge.root);
    free(merge.size);
    free(merge.is_free);
    free(merge.reached);
    return node_of;
}
