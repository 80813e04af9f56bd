// Layers of a training graph of operators, by colour classes. In such a graph a layer is several nodes, forward and
// backward, which their common colour puts on one device. The sums of gradients are backward nodes without a colour:
//
//     forward    w4  m4 ---> a5      colour 4 is the layer of w4 and m4: F their times, B those of g4 and u4;
//     backward   u4  g4 <--- g5      its gradients go back along the edges on which its tensor goes
//                  s  ---> g4        s belongs to the layer that it feeds
#ifndef PROFILER_DNN_CLASSES_H
#define PROFILER_DNN_CLASSES_H

#include "profiler/dnn_graph.h"

// Whether the graph's layers are classes. They are if a backward node has no colour, or if its colour has not exactly
// one forward node.
bool dnn_has_classes(const struct dnn_graph *graph);

// Replaces the nodes of each class by a forward node, named after the one that takes longest, and a backward node. One
// edge replaces all edges between two classes; a class sends all that leaves it. Edges within a class are dropped. What
// a profile cannot express is counted. A contradiction is refused, with the node or the edge.
bool dnn_join_classes(struct dnn_graph *graph, struct error *error);

#endif
