// dnn-partitioning's cost model. A stage is alone on an accelerator or on a CPU:
//
//     accelerator    load = the layers' times
//                         + for each tensor from another stage, and for each that another
//                           stage reads, its transfer: once, however many read it
//     CPU            load = the times of the layers' variant "cpu"; its transfers cost nothing
//
// Where the model has a backward each tensor that crosses a cut crosses it twice, as its
// gradient too. An accelerator must hold its layers' parameter_bytes and saved_bytes,
// a CPU holds anything. There are no replicas, and nothing is in flight.
#ifndef PARTITIONER_OBJECTIVES_MAX_LOAD_H
#define PARTITIONER_OBJECTIVES_MAX_LOAD_H

#include "partitioner/objectives/objective.h"

// The layer on a CPU, or NULL where it cannot run there.
const struct profile_layer *max_load_on_cpu(const struct profile_layer *layer);

// How often a tensor crosses: 2 where the model has a backward.
uint64_t max_load_crossings(const struct profile *profile);

#endif
