// Stages that only take time. They sleep for their duration and touch the bytes they were given. With them 64 ranks
// run in real time on two cores, and a schedule's order, buffers and times can be tested without a model.
//
// They also check what they get. Whatever a synthetic stage writes holds a pattern of step, micro-batch, stage and
// purpose. Whatever it reads must hold the right pattern: its input, and what it kept itself. The first element of
// the weights counts updates, and a backward must see the same count as its forward. Each backward adds 1 to the
// first gradient.
//
// Durations below about 2 ms are lost in the time that a thread needs to wake up.
#ifndef TESTS_RUNTIME_SYNTHETIC_H
#define TESTS_RUNTIME_SYNTHETIC_H

#include "runtime/stages/stage.h"

struct synthetic {
    uint32_t stage, stages;
    struct cost_row costs;  // only its times are used
    const struct cost_row *rows;  // of all stages, for the time of an F together with a backward
    struct stage_bytes bytes;
};

// Times and sizes of stage `stage` from rows of costs, one per stage. Sizes of what is kept, held and sent are as the
// row says; weights and gradients are as large as a version. The rows are borrowed.
struct synthetic synthetic_from_costs(const struct cost_row *costs, uint32_t stages, uint32_t stage);

// Borrows `synthetic`.
struct stage synthetic_stage(struct synthetic *synthetic);

#endif
