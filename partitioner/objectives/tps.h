// Piper's cost model. A stage has d replicas, each a group of t devices, and runs every layer in one of its ways for
// t devices. With s the replicas of this stage and of all later ones together, and N micro-batches, it takes for
// each micro-batch
//
//     load = time / d  +  2 bytes / (d rate)  +  4 (d - 1) w / (d N rate)
//            |            |                      +- the replicas' gradients, w = parameter_bytes
//            |            +- what the ways receive and send along each edge to another stage,
//            |               forward and back
//            +- F and B of the ways, recomputation included
//
// and each of its devices holds saved_bytes ceil(s / d) + 2 w + workspace, summed over its layers. Communication is
// never overlapped and has no latency. N is a multiple of d, and s is at most N. Nothing is filled or drained: the
// objective is the largest load.
#ifndef PARTITIONER_OBJECTIVES_TPS_H
#define PARTITIONER_OBJECTIVES_TPS_H

#include "partitioner/objectives/objective.h"

// A way to run a layer; variant 0 is the layer itself.
struct tps_way {
    const struct profile_layer *layer;
    uint32_t variant, devices;
    uint64_t time_ns, parameter_bytes;
    uint64_t in_flight_bytes, fixed_bytes;  // for each micro-batch in flight, and besides these
};

// The ways of all layers, or, for a given plan, those that it chose.
struct tps_ways {
    struct tps_way *ways;
    uint32_t *way_at;     // of each layer: ways[way_at[i]] to ways[way_at[i + 1]]
    uint32_t *degrees;    // the numbers of devices that some layer has a way for, rising, up to the number of machines
    size_t degree_count;
    uint32_t machines;
};

// False, with the error, without memory or if the plan names a variant that does not exist.
bool tps_ways_create(struct tps_ways *ways, const struct profile *profile, const struct bottleneck_result *given,
                     uint32_t machines, struct arrays *arrays, struct error *error);

// --- what a stage loads at least --------------------------------------------------------
//
// This floor comes from sums over downsets, so quickly that few stages need their price. Memory is counted by a
// price on bytes, a Lagrangian bound. For any nu,
//
//     sum of min over ways (time + nu saved)  +  nu / y (sum of min fixed - memory)
//
// is no more than the time of ways whose y saved + fixed bytes fit. It is computed for a few nu, spread over those
// at which some layer would change its way.

enum { TPS_MOST_PENALTIES = 12 };

// The sums over downsets for each degree. They are the least of each layer's ways; layers that have none; the time
// of all devices; then the least of time plus a penalty on what is saved.
enum tps_sum { TPS_TIME, TPS_PARAMETERS, TPS_SAVED, TPS_FIXED, TPS_LACKING, TPS_WORK, TPS_PENALIZED };
struct tps_sums {
    uint64_t *of[TPS_PENALIZED + TPS_MOST_PENALTIES];
};

struct tps_floors {
    double reduce_ns;     // of a byte of parameters, for each replica but one
    uint64_t memory_bytes;
    double penalties[TPS_MOST_PENALTIES];
    size_t penalty_count;
    struct tps_sums *sums;  // by degree
    uint64_t *work;         // by downset: machine time, in any way
};

// The layers between two downsets on `replicas` groups of a degree, each with `in_flight` micro-batches in flight.
struct tps_stage {
    uint32_t inner, outer;
    uint32_t degree;  // its index among the degrees
    uint32_t replicas, in_flight;
};

// The view's arrays record whether memory ran out.
void tps_floors_create(struct tps_floors *floors, struct graph_view *view, const struct tps_ways *ways,
                       const struct machines *machines, uint32_t micro_batches);

// The floor of a stage's load in ns; INFINITY if the stage cannot fit. It stops once the load is known to be
// `enough`; then a stage that cannot fit may have a finite floor.
double tps_floor(const struct tps_floors *floors, const struct tps_stage *stage, double enough);

#endif
