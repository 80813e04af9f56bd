// The cost model of dnn-partitioning. A stage has an accelerator or a CPU to itself:
//
//     accelerator    load = the layers' times
//                         + for each tensor from another stage, and for each that another
//                           stage reads, its transfer: once, however many read it
//     CPU            load = the times of the layers' variant "cpu"; its transfers cost nothing
//
// If the model has a backward, each tensor that crosses a cut crosses it twice, the second time as its gradient. An
// accelerator must hold its layers' parameter_bytes and saved_bytes; a CPU holds anything. There are no replicas,
// and nothing is in flight.
#ifndef PARTITIONER_OBJECTIVES_MAX_LOAD_H
#define PARTITIONER_OBJECTIVES_MAX_LOAD_H

#include "partitioner/objectives/objective.h"

// The layer as it runs on a CPU, or NULL if it cannot run there.
const struct profile_layer *max_load_on_cpu(const struct profile_layer *layer);

// How many times a tensor crosses a cut: 2 if the model has a backward, else 1.
uint64_t max_load_crossings(const struct profile *profile);

#endif
