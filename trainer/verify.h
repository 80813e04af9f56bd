// Whether a pipeline of a built-in model computes what one processor computes.
#ifndef TRAINER_VERIFY_H
#define TRAINER_VERIFY_H

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "runtime/twin/verify_layers.h"
#include "trainer/run_place.h"

struct verify_settings {
    uint32_t steps;  // iterations
    uint64_t seed;
    float clip;      // of gradients (runtime/optimizer.h)
    uint64_t freeze_step;  // optimizer_freeze(); 0: the usual one
    uint64_t batch;  // samples of an iteration (batch_settings_take()); 0: micro-batches are full
    struct loss_scaling scaling;  // in fp16, what is wished for (runtime/loss_scaling.h)
};

// On the device of that name, with the plan's optimizer and schedule.
bool verify_plan(const struct plan *plan, const struct model *model, const struct run_place *place,
                 const struct verify_settings *settings, struct verification *result, struct error *error);

// The same on a lowered schedule of one's own (verify_layers.h).
bool verify_schedule(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                     const struct run_place *place, const struct verify_settings *settings,
                     struct verification *result, struct error *error);

#endif
