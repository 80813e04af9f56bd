// The lines of a PipeDream graph.txt, as they are:
//
//     node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, ...
//     node2 -- Linear(4, 4) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=64.0, ...
//     <tab>node1 -- node2
//
// Times are in ms and sizes are whole bytes, both with or without decimals. A list of several outputs is written [a;
// b; c]. Nodes and edges come in any order.
#ifndef PROFILER_PIPEDREAM_GRAPH_H
#define PROFILER_PIPEDREAM_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/import_parts.h"

struct pipedream_node {
    const char *id;      // "node12"
    uint64_t number;     // 12: the digits at the end of its id
    const char *kind;    // "Conv2d": its description up to the parenthesis
    bool is_input;       // the description begins with Input
    size_t line;
    uint64_t forward_ns, backward_ns;
    uint64_t output_bytes, parameter_bytes;
};

struct pipedream_link {
    struct import_link link;  // between indices of the nodes; its place is a line
    const char *from_id, *to_id;
};

struct pipedream_graph {
    const char *name;  // of the file, for messages
    char *text;        // the nodes' names point into this
    struct pipedream_node *nodes;  // by number, then by name
    size_t node_count;
    struct pipedream_link *links;  // by producer, then consumer; none occurs twice
    size_t link_count;
    size_t stage_ids;  // how many nodes have a stage_id
    size_t unknown;    // fields that this reader does not know
};

// Reads a graph. False with a one-sentence error, "FILE:LINE: ...". pipedream_graph_clear() must be called in any
// case. The graph keeps a reference to `name`.
bool pipedream_graph_read(struct pipedream_graph *graph, const char *text, size_t length, const char *name,
                          struct error *error);
void pipedream_graph_clear(struct pipedream_graph *graph);

// Puts "FILE:LINE: " before the error that is already there.
bool pipedream_graph_at(const struct pipedream_graph *graph, size_t line, struct error *error);

#endif
