// Placement of a configuration's devices: the order in which its parallel dimensions are numbered, and thus which
// network levels of the device its messages cross.
//
//     tp-cp-ep-dp-pp   the first ranks of all pipelines, then their second ones, ..
//     tp-cp-ep-pp-dp   one pipeline behind the other
//
// These are Megatron's orders, with Megatron's names. Take 2 pipelines of 4 ranks on nodes of 4 devices. In the first
// order messages between ranks 1 and 2 cross nodes, and gradients are reduced within a node. In the second order it
// is the other way round:
//
//     rank      0 0 1 1 | 2 2 3 3          0 1 2 3 | 0 1 2 3
//     pipeline  0 1 0 1 | 0 1 0 1          0 0 0 0 | 1 1 1 1
#ifndef PARTITIONER_SWEEP_CONFIG_PLACE_H
#define PARTITIONER_SWEEP_CONFIG_PLACE_H

#include "common/text.h"
#include "profiler/cluster.h"
#include "profiler/estimate/rated_device.h"

struct config_row;
struct config_request;

enum config_placement { PLACEMENT_DATA_INSIDE, PLACEMENT_PIPELINE_INSIDE, PLACEMENTS };
extern const char *const config_placement_names[];  // Megatron's names, ended by NULL
extern const char *const config_placement_ends[];   // the part of a name in which the two differ

// The network levels that messages between ranks cross, innermost first. `ranks` is a number of consecutive ranks
// that are all in one group of the level, in every pipeline. For the last level it is all ranks.
struct config_hops {
    size_t count;
    struct { uint32_t ranks; const struct rated_level *level; } at[RATED_MOST_LEVELS];
};
struct config_hops config_hops(const struct config_request *request, const struct config_row *row);

// The level of these over which a rank sends to the next one.
const struct rated_level *config_hop(const struct config_hops *hops, uint32_t rank);

// Whether every message, whatever its size and ranks, takes at most as long with `a` as with `b`.
bool config_hops_no_slower(const struct config_request *request, const struct config_hops *a,
                           const struct config_hops *b, uint32_t ranks);

// The speed of a rank, in thousandths of the estimate's speed. A rank is as slow as the slowest of its devices in any
// pipeline, because all pipelines wait for each other and have the same cuts. Devices left without work are the slow
// ones, if there are any.
uint64_t config_permille(const struct config_request *request, const struct config_row *row, uint32_t rank);

// How many copies of each stage the row's schedule has, in pipelines that run against each other. Their devices share
// states and add up gradients as data-parallel devices do.
uint32_t config_copies(const struct config_row *row);

// The ranks of one pipeline as a cluster for the planner. The caller frees it; NULL with an error if memory runs out.
struct cluster *config_cluster(const struct config_request *request, const struct config_row *row,
                               uint64_t memory_bytes, struct error *error);

// Adds a line such as "tensor within 8, data within 256, pipeline within 8192": for each dimension, the size of the
// groups of devices that hold it.
void config_say_levels(const struct config_request *request, const struct config_row *row, struct text *text);

#endif
