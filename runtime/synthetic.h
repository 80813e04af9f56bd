// Stages that only take time: they sleep for their duration and touch the bytes
// they were given, so that 64 ranks run in real time on two cores, and a schedule's
// order, buffers and times can be tried without any model.
//
// They look closely at what they get. Whatever a synthetic stage writes holds a
// pattern of step, micro-batch, stage and purpose; whatever it reads must hold the
// right one, from its input to what it kept itself. The first element of the
// weights counts updates, and a backward must meet the one its forward met. Each
// backward adds 1 to the first gradient.
//
// Durations below about 2 ms drown in the time a thread needs to wake up.
#ifndef RUNTIME_SYNTHETIC_H
#define RUNTIME_SYNTHETIC_H

#include "runtime/stage.h"

struct synthetic {
    uint32_t stage, stages;
    struct cost_row costs;  // its times; the rest is not looked at
    const struct cost_row *rows;  // of all stages: what an F takes together with a backward
    struct stage_bytes bytes;
};

// Times and sizes of stage `stage` from rows of costs, one per stage: what is kept,
// held and handed on are as the row says, weights and gradients as large as a version.
// The rows are borrowed.
struct synthetic synthetic_from_costs(const struct cost_row *costs, uint32_t stages, uint32_t stage);

// Borrows it.
struct stage synthetic_stage(struct synthetic *synthetic);

#endif
