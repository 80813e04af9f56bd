// A profile's graph as the models see it: machines of one kind, nodes that are one layer or several layers together,
// and the downsets between which stages lie.
#ifndef PARTITIONER_OBJECTIVES_GRAPH_VIEW_H
#define PARTITIONER_OBJECTIVES_GRAPH_VIEW_H

#include "common/arrays.h"
#include "partitioner/search/downsets.h"
#include "partitioner/objectives/bottleneck.h"

// Devices called "cpu", "cpu0", "cpu1" ... are those of the host; all others are accelerators.
struct machines {
    uint32_t accelerators, cpus;
    uint64_t memory_bytes;                  // of the smallest accelerator
    uint64_t bytes_per_second, latency_ns;  // of the innermost level; a rate of 0: bytes cost nothing
};

// Refuses more than `most_levels` levels of links. Unless the model knows speeds (`of_any_speed`), refuses devices
// of another speed than the profile's. The errors name the model.
bool machines_find(struct machines *machines, const struct bottleneck_request *request, size_t most_levels,
                   bool of_any_speed, struct error *error);
bool is_cpu(const struct cluster_device *device);

struct graph_view {
    const struct bottleneck_request *request;
    uint32_t *node_of;        // the node of each layer, or DOWNSETS_LEFT_OUT
    uint32_t *layers;         // by node: those of node n are layers[layer_at[n]] to layers[layer_at[n + 1]]
    uint32_t *layer_at;
    struct edge *edges;       // between nodes, by (from, to) if each layer is a node; they may repeat
    struct downset_graph graph;
    struct downsets *downsets;
    bool is_whole;            // the downsets are all that the graph has
    struct arrays arrays;     // these fields, and what prices add
};

// The numbers of nodes in `node_of` are an order in which they can run; layers may be left out. NULL: each layer is
// a node. The downsets are all of the graph, or with `of_order` those of one order. This is the order of the nodes,
// or of a given plan's layers (`order`), each of which is a node or left out.
bool graph_view_create(struct graph_view *view, const struct bottleneck_request *request, const uint32_t *node_of,
                       bool of_order, const uint32_t *order, struct error *error);
void graph_view_clear(struct graph_view *view);

// For each downset, the sum over its layers of `value`, or of what a function says of each layer. The sums are kept
// with the view's arrays, which record if memory ran out.
uint64_t *graph_view_sum(struct graph_view *view, const uint64_t *value);
typedef uint64_t graph_view_value(const struct profile_layer *layer);
uint64_t *graph_view_sum_of(struct graph_view *view, graph_view_value *value);

static inline bool graph_view_holds(const struct graph_view *view, size_t downset, uint32_t layer)
{
    return downsets_holds(view->downsets, downset, view->node_of[layer]);
}

// Whether the stages of a given plan read nothing of later ones. With `heeds_ties`, also whether they separate
// nothing that belongs together.
bool graph_view_check(const struct profile *profile, const struct bottleneck_result *plan, bool heeds_ties,
                      struct error *error);

#endif
