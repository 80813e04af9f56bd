// What max-load and tps see alike: machines of one kind with one rate between them, all
// the places where a graph may be cut, and what a plan must be to have a price.
#ifndef PARTITIONER_OBJECTIVES_CUT_VIEW_H
#define PARTITIONER_OBJECTIVES_CUT_VIEW_H

#include "partitioner/objectives/bottleneck.h"
#include "partitioner/objectives/downsets.h"

// Devices called "cpu", "cpu0", "cpu1" ... are the host's; all others are accelerators.
struct cut_machines {
    uint32_t accelerators, cpus;
    uint64_t memory_bytes;                  // of the smallest accelerator
    uint64_t bytes_per_second, latency_ns;  // a rate of 0: bytes cost nothing
};

// Refuses devices of several kinds and several levels of links, in the name of the model.
bool cut_machines_find(struct cut_machines *machines, const struct bottleneck_request *request, struct error *error);
// The same for who knows speeds.
bool cut_machines_of_any_speed(struct cut_machines *machines, const struct bottleneck_request *request,
                               struct error *error);
bool cut_is_cpu(const struct cluster_device *device);

// A layer that costs nothing wherever it stands and has one neighbour loses nothing by
// standing with it: the two are one node, and so on. That takes the inputs and unread
// outputs of a graph out of its ways to be cut, of which they make too many.
struct cut_view {
    const struct bottleneck_request *request;
    struct cut_machines machines;
    uint32_t *node_of;           // of each layer
    struct edge *edges;          // between nodes
    struct downset_graph graph;
    struct downsets *downsets;
    bool has_all_downsets;  // else those of the profile's order only: there are too many
    bool *may_cut;          // at each downset: it parts neither tied layers nor what no_cut_after joins
};

// `is_free` says which layers cost nothing; NULL: none does.
bool cut_view_create(struct cut_view *view, const struct bottleneck_request *request, const bool *is_free,
                     struct error *error);
void cut_view_clear(struct cut_view *view);

// For each downset the sum over its layers of `value`; freed by free().
uint64_t *cut_view_sum(const struct cut_view *view, const uint64_t *value, struct error *error);

static inline bool cut_view_holds(const struct cut_view *view, size_t downset, uint32_t layer)
{
    return downsets_holds(view->downsets, downset, view->node_of[layer]);
}

// The stage of each layer, for free(). NULL where the stages do not hold each layer once,
// where one reads from a later one, or where they part what may not be parted.
uint32_t *cut_stages(const struct bottleneck_request *request, const struct bottleneck_result *plan,
                     struct error *error);

// The table of a search takes at most so many bytes.
#define CUT_MOST_BYTES ((uint64_t)1 << 30)

#endif
