// What no plan of a configuration can beat, by its layers' times and bytes, its messages and its memory alone.
//
// Layers cannot be cut within units: the embedding, each block, the head. A rank takes units, and what it has no room for
// it runs again: in the bound the part of a layer that makes just enough room, at the best price, and nothing is kept of
// it. It begins behind the first passes of the ranks before it, and what it does last is passed on by them, too.
//
//     rank 0   F0 F1 F2 ..                        B          an end is too early where the ranks, each with the units that
//     rank 1   wait F0 F1 ..                   B wait        it can do and hold between its waits, do not have them all
//     rank 2   wait wait F0 ..              B wait wait
#ifndef PARTITIONER_SWEEP_CONFIG_BOUND_H
#define PARTITIONER_SWEEP_CONFIG_BOUND_H

#include "partitioner/sweep/config_sweep.h"

struct config_costs {  // of a way to share the model out
    const struct transformer *model;
    double memory_bytes;                // of a device
    double pass_ns[LAYER_PARTS];        // of a micro-batch: F, I and W
    double forward_ns[LAYER_PARTS];
    double saved_bytes[LAYER_PARTS];    // of a micro-batch, where a layer is not run again
    double fixed_bytes[LAYER_PARTS];    // weights, gradients and states
    double output_bytes;                // what is sent from rank to rank
    double work_ns, work_forward_ns;    // of all units
};
struct config_costs config_costs(const struct config_request *request, uint64_t memory_bytes,
                                 const struct estimate *estimate);

// Whether weights, gradients and states of all layers have room at all.
bool config_costs_may_fit(const struct config_costs *costs, uint32_t ranks);

// How fast a rank is, 1 being as the estimate has it.
double config_speed(const struct config_request *request, const struct config_row *row, uint32_t rank);

// The least time of the micro-batches; INFINITY where no cut fits.
double config_least_ns(const struct config_costs *costs, const struct config_request *request,
                       const struct config_row *row);

// How many micro-batches a rank at least waits for the backwards of, once it is in full swing: of one of its stages, and
// of each of `dear` others.
struct config_flight {
    uint32_t least, most, dear;
};
struct config_flight config_flight(const struct config_row *row, uint32_t rank);

#endif
