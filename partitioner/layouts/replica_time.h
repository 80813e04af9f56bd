// How long an iteration of stages with several ranks each takes. Their order of actions
// (schedules/generators/replicas.c) is followed micro-batch by micro-batch, without the lists of a schedule. Setting
// up the simulator takes a thousand times as long, and gives the same time to the ns if no two channels share a link.
#ifndef PARTITIONER_LAYOUTS_REPLICA_TIME_H
#define PARTITIONER_LAYOUTS_REPLICA_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "schedules/generators/generate.h"

// Whether no iteration ends with a flush.
static inline bool replica_order_goes_on(enum generator_order order)
{
    return order == ORDER_PIPEDREAM || order == ORDER_2BW;
}

// A stage, with its links to the next one, which are alike in both directions.
struct replica_stage {
    uint32_t ranks;
    uint64_t forward_ns, backward_ns;
    uint64_t reduce_ns;            // to all-reduce the gradients of its copies
    uint64_t busy_ns, latency_ns;  // of a message to the next stage, or from it
};

// A clock has room for so many stages and micro-batches. NULL without memory. For PipeDream and PipeDream-2BW, which
// never flush, the time is that of a run of three iterations less that of two.
struct replica_clock;
struct replica_clock *replica_clock_create(enum generator_order order, uint32_t stages, uint32_t micro_batches,
                                           struct error *error);
void replica_clock_free(struct replica_clock *clock);

uint64_t replica_time(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count);

#endif
