// How long an iteration of stages with several ranks each takes: their order of actions
// (schedules/generators/replicas.c) followed micro-batch by micro-batch, without the lists of
// a schedule. Setting up the simulator takes a thousand times as long, and says the same
// time to the ns where no two channels share a link.
#ifndef PARTITIONER_LAYOUTS_CREW_TIME_H
#define PARTITIONER_LAYOUTS_CREW_TIME_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

// A stage, with its links to the next one: there and back alike.
struct crew_stage {
    uint32_t ranks;
    uint64_t forward_ns, backward_ns;
    uint64_t reduce_ns;            // of its copies' gradients
    uint64_t busy_ns, latency_ns;  // of a message to the next stage, or from it
};

enum crew_order { CREW_1F1B, CREW_GPIPE, CREW_FORWARD_ONLY };

// Room for so many stages and micro-batches.
struct crew_clock;
struct crew_clock *crew_clock_create(uint32_t stages, uint32_t micro_batches, struct error *error);
void crew_clock_free(struct crew_clock *clock);

uint64_t crew_time(struct crew_clock *clock, enum crew_order order, const struct crew_stage *stages, uint32_t count);

#endif
