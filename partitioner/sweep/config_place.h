// Where the devices of a configuration stand: in which order its dimensions are numbered, and so which of the device's
// levels messages cross.
//
//     tp-cp-ep-dp-pp   the first ranks of all pipelines, then their second ones, ..
//     tp-cp-ep-pp-dp   one pipeline behind the other
//
// These are the orders that Megatron has, in its words. Of 2 pipelines of 4 ranks on nodes of 4 devices the first has the
// messages of ranks 1 and 2 cross nodes and adds gradients up within them, the second the other way round:
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
extern const char *const config_placement_names[];  // Megatron's, and a NULL

// The levels that messages between ranks cross, innermost first, each with the ranks in a row of which all are in one
// group of it, in every pipeline; the last has all ranks.
struct config_hops {
    size_t count;
    struct { uint32_t ranks; const struct rated_level *level; } at[RATED_MOST_LEVELS];
};
struct config_hops config_hops(const struct config_request *request, const struct config_row *row);

// Of these the one over which a rank talks to the next.
const struct rated_level *config_hop(const struct config_hops *hops, uint32_t rank);

// Whether no message takes longer by `a` than by `b`, whatever it is and between whichever ranks.
bool config_hops_no_slower(const struct config_request *request, const struct config_hops *a, const struct config_hops *b,
                           uint32_t ranks);

// How fast a rank is, in thousandths of what the estimate has: as slow as the slowest of its devices, in any pipeline,
// since all pipelines wait for each other and have the same cuts. Devices without work are the slow ones, if there are any.
uint64_t config_permille(const struct config_request *request, const struct config_row *row, uint32_t rank);

// The ranks of a pipeline as the planner takes them.
struct cluster *config_cluster(const struct config_request *request, const struct config_row *row, uint64_t memory_bytes,
                               struct error *error);

// "tensor within 8, data within 256, pipeline within 8192": the sizes of the groups of devices that hold each dimension.
void config_say_levels(const struct config_request *request, const struct config_row *row, struct text *text);

#endif
