// Layers of a graph of operators, for training: colour classes. There a layer is several nodes, forward and backward,
// which their colour puts on one device, and the sums of gradients are backward nodes of no colour:
//
//     forward    w4  m4 ---> a5      colour 4 is the layer of w4 and m4: F their times, B those of g4 and u4;
//     backward   u4  g4 <--- g5      its gradients go back along the edges that its tensor goes
//                  s  ---> g4        s stands with the layer that it feeds
#ifndef PROFILER_DNN_CLASSES_H
#define PROFILER_DNN_CLASSES_H

#include "profiler/dnn_graph.h"

// Whether the graph's layers are classes: a backward node has no colour, or its colour not one forward node.
bool dnn_has_classes(const struct dnn_graph *graph);

// Puts each class in the place of its nodes: its forward node, named after the one that takes longest, its backward node,
// and one edge for all between two classes, of all that leave the first. Edges within one go. What has no like in a
// profile is counted, and what contradicts itself refused, with the node or the edge.
bool dnn_join_classes(struct dnn_graph *graph, struct error *error);

#endif
