// A profile's graph as the models see it: machines of one kind, nodes that are layers or
// several layers together, and the downsets between which stages lie.
#ifndef PARTITIONER_OBJECTIVES_GRAPH_VIEW_H
#define PARTITIONER_OBJECTIVES_GRAPH_VIEW_H

#include "common/arrays.h"
#include "partitioner/downsets.h"
#include "partitioner/objectives/bottleneck.h"

// Devices called "cpu", "cpu0", "cpu1" ... are the host's; all others are accelerators.
struct machines {
    uint32_t accelerators, cpus;
    uint64_t memory_bytes;                  // of the smallest accelerator
    uint64_t bytes_per_second, latency_ns;  // of the innermost level; a rate of 0: bytes cost nothing
};

// Refuses more than so many levels of links and, unless the model knows speeds, devices of another one than the
// profile's, in the name of the model.
bool machines_find(struct machines *machines, const struct bottleneck_request *request, size_t most_levels,
                   bool of_any_speed, struct error *error);
bool is_cpu(const struct cluster_device *device);

struct graph_view {
    const struct bottleneck_request *request;
    uint32_t *node_of;        // of each layer, or DOWNSETS_LEFT_OUT
    uint32_t *layers;         // by node: those of node n are layers[layer_at[n]] to layers[layer_at[n + 1]]
    uint32_t *layer_at;
    struct edge *edges;       // between nodes, by (from, to) where each layer is a node; they may repeat
    struct downset_graph graph;
    struct downsets *downsets;
    bool is_whole;            // the graph has no others
    struct arrays arrays;     // these, and what prices have of their own
};

// `node_of` numbers the nodes in an order in which they can run, or leaves layers out; NULL: each layer is a node. Of
// the downsets all, or those of one order: of the nodes, or of a given plan's layers, each a node or left out.
bool graph_view_create(struct graph_view *view, const struct bottleneck_request *request, const uint32_t *node_of,
                       bool of_order, const uint32_t *order, struct error *error);
void graph_view_clear(struct graph_view *view);

// For each downset the sum over its layers of `value`, or of what a function says of each; kept with the view's arrays,
// which say where memory failed.
uint64_t *graph_view_sum(struct graph_view *view, const uint64_t *value);
typedef uint64_t graph_view_value(const struct profile_layer *layer);
uint64_t *graph_view_sum_of(struct graph_view *view, graph_view_value *value);

static inline bool graph_view_holds(const struct graph_view *view, size_t downset, uint32_t layer)
{
    return downsets_holds(view->downsets, downset, view->node_of[layer]);
}

// Whether a given plan's stages read nothing of later ones and, if it is of interest, part nothing that belongs
// together.
bool graph_view_check(const struct profile *profile, const struct bottleneck_result *plan, bool heeds_ties,
                      struct error *error);

#endif
