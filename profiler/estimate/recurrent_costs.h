// What a recurrent layer costs between its norm and its sum: its products, its convolution and its scan. For
// layer_costs.c.
//
// A scan computes in chunks of the sequence: products within a chunk as in attention, and products with the state of
// each head, which goes from chunk to chunk.
//
//     Mamba 2, of each token:  2 chunk (groups state + heads size)  +  4 heads size state
//
//                              scores and values of its chunk          written to the state, and read from it
//
// The kernels keep what they read and compute the chunks again in the backward, which then has the products of the
// forward three times.
#ifndef PROFILER_ESTIMATE_RECURRENT_COSTS_H
#define PROFILER_ESTIMATE_RECURRENT_COSTS_H

#include "profiler/estimate/layer_costs.h"

void add_recurrence(struct layer_maker *maker);

// With a part of the sequence on each device of a context-parallel group, heads are exchanged for tokens before the
// scan, and back behind it. It is added after what tensor parallelism hides.
void add_recurrence_exchange(struct layer_maker *maker);

#endif
