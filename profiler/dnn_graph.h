// The input format of msr-fiddle/dnn-partitioning, read as it is. Nodes have times on an accelerator and on a CPU,
// and the cost of an edge is a time. Backward nodes are nodes of their own, tied to a forward node by a colour class:
//
//     forward   1 ---> 2 ---> 3        one layer per forward node; F is its time,
//     backward  4 ---> 5 ---> 6        B is that of the backward nodes of its colour
//
// In a graph of operators a layer is several nodes; dnn_classes.h makes one node of them.
#ifndef PROFILER_DNN_GRAPH_H
#define PROFILER_DNN_GRAPH_H

#include "common/json.h"
#include "profiler/import_parts.h"

struct dnn_node {
    uint64_t id, colour;
    const char *name;  // or NULL; belongs to the document
    bool is_backward, has_colour;
    uint64_t accelerator_ns, cpu_ns, size_bytes;
    uint64_t send_ns;  // the cost of each edge that leaves it
    size_t sender;     // 1 + the first edge that leaves it
    uint32_t forward;  // for a backward node, the forward node of its colour; else the node itself
};

struct dnn_graph {
    const char *document;  // its name, for messages
    struct json_document *json;
    uint64_t accelerators, cpus, memory_bytes;
    struct import_id *ids;  // sorted by id, as the nodes are
    struct dnn_node *nodes;
    size_t node_count, forward_count;
    uint32_t *layer_node;       // the forward nodes
    struct import_link *links;  // between forward nodes, by their index among these, sorted
    size_t link_count;
    struct import_link *backward;  // between backward nodes; each is the twin of a forward edge
    size_t backward_count;
    struct edge *tied;  // forward nodes of the same colour, by their index, one after the other
    size_t tied_count;
    size_t unknown;  // fields that this reader does not know
    size_t read_count, read_backward;  // nodes in the document
    size_t unlike_count;  // edges between classes (dnn_classes.h) whose cost a profile cannot express
};

// Reads a graph. False with a one-sentence error, "FILE: nodes[3].size: ...". dnn_graph_clear() must be called in any
// case; it frees `json`, too. The graph keeps references to `json` and `name`.
bool dnn_graph_read(struct dnn_graph *graph, struct json_document *json, const char *name, struct error *error);
void dnn_graph_clear(struct dnn_graph *graph);

// Sets the error to "FILE: edges[3]: " and the sentence about the nodes with these ids. Always false.
bool dnn_graph_refuse_edge(const struct dnn_graph *graph, size_t place, struct error *error, const char *format,
                           uint64_t from, uint64_t to) __attribute__((format(printf, 4, 0)));

#endif
