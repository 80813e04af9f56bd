// A lower bound on the iteration time of a configuration. It follows from the layers' times and bytes, the messages
// and the memory alone.
//
// Layers cannot be cut within units. The units are the embedding, each block, and the head. A rank takes whole units,
// and recomputes what does not fit into its memory. The bound is relaxed here: a rank recomputes just the part of a
// layer that frees enough memory, at the best price, and of that part nothing is kept. A rank begins after the first
// passes of the ranks before it. The same ranks also pass on what it computes last.
//
//     rank 0   F0 F1 F2 ..                        B       An end time is too early if the ranks together do not take
//     rank 1   wait F0 F1 ..                   B wait     all units, when each rank takes the units that it can
//     rank 2   wait wait F0 ..              B wait wait   compute and hold between its waits.
#ifndef PARTITIONER_SWEEP_CONFIG_BOUND_H
#define PARTITIONER_SWEEP_CONFIG_BOUND_H

#include "partitioner/sweep/config_sweep.h"

struct config_costs {  // of one configuration
    const struct transformer *model;
    double memory_bytes;                // of a device
    double pass_ns[LAYER_SLOTS];        // F, I and W of a micro-batch
    double forward_ns[LAYER_SLOTS];
    double saved_bytes[LAYER_SLOTS];    // of a micro-batch, if the layer is not recomputed
    double fixed_bytes[LAYER_SLOTS];    // weights, gradients and optimizer states
    double output_bytes;                // of the message from one rank to the next
    double work_ns, work_forward_ns;    // of all units
    bool blocks_are_same;               // whether all blocks consist of these parts
    enum layer_part attention, rest;
};
struct config_costs config_costs(const struct config_request *request, uint64_t memory_bytes,
                                 const struct estimate *estimate);

// Whether the weights, gradients and optimizer states of all layers fit into the memory of `ranks` devices together.
// This is necessary, not sufficient.
bool config_costs_may_fit(const struct config_costs *costs, uint32_t ranks);

// The relative speed of a rank, and the sum over all ranks of the row; 1 is the speed of the estimate.
double config_speed(const struct config_request *request, const struct config_row *row, uint32_t rank);
double config_speed_of_all(const struct config_request *request, const struct config_row *row);

// The least time of all micro-batches, in nanoseconds; INFINITY if no cut fits.
double config_least_ns(const struct config_costs *costs, const struct config_request *request,
                       const struct config_row *row);

#endif
