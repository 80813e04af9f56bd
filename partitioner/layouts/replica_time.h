// How long an iteration of stages with several ranks each takes: their order of actions
// (schedules/generators/replicas.c) followed micro-batch by micro-batch, without the lists of
// a schedule. Setting up the simulator takes a thousand times as long, and says the same
// time to the ns where no two channels share a link.
#ifndef PARTITIONER_LAYOUTS_REPLICA_TIME_H
#define PARTITIONER_LAYOUTS_REPLICA_TIME_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

// A stage, with its links to the next one: there and back alike.
struct replica_stage {
    uint32_t ranks;
    uint64_t forward_ns, backward_ns;
    uint64_t reduce_ns;            // of its copies' gradients
    uint64_t busy_ns, latency_ns;  // of a message to the next stage, or from it
};

// Of PipeDream, which never flushes, a run of three iterations less one of two.
enum replica_order { REPLICA_1F1B, REPLICA_GPIPE, REPLICA_FORWARD_ONLY, REPLICA_PIPEDREAM };

// Room for so many stages and micro-batches.
struct replica_clock;
struct replica_clock *replica_clock_create(enum replica_order order, uint32_t stages, uint32_t micro_batches,
                                           struct error *error);
void replica_clock_free(struct replica_clock *clock);

uint64_t replica_time(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count);

#endif
