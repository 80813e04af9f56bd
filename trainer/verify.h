// Whether a pipeline of a built-in model computes exactly what one processor computes.
#ifndef TRAINER_VERIFY_H
#define TRAINER_VERIFY_H

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "runtime/twin/verify_layers.h"
#include "trainer/run_place.h"

struct verify_settings {
    uint32_t steps;  // iterations
    uint64_t seed;
    float clip;      // limit of the gradients' norm (runtime/updates/optimizer.h)
    uint64_t freeze_step;  // optimizer_freeze(); 0: the usual step
    uint64_t batch;  // samples of an iteration (batch_settings_take()); 0: micro-batches are full
    struct loss_scaling scaling;  // requested scaling, in fp16 (runtime/updates/loss_scaling.h)
};

// Runs the plan's schedule with the plan's optimizer on the device that `place` names. False with `error` if it
// cannot be run; whether the two agree is in `result`.
bool verify_plan(const struct plan *plan, const struct model *model, const struct run_place *place,
                 const struct verify_settings *settings, struct verification *result, struct error *error);

// The same with a lowered schedule of the caller's (verify_layers.h).
bool verify_schedule(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                     const struct run_place *place, const struct verify_settings *settings,
                     struct verification *result, struct error *error);

#endif
