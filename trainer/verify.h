// Whether a pipeline computes what one processor computes: the same model trained
// by the plan's pipeline and by the sequential twin, from the same weights on the
// same batches, compared bit for bit.
#ifndef TRAINER_VERIFY_H
#define TRAINER_VERIFY_H

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "runtime/weir.h"
#include "trainer/run_place.h"

struct verification {
    bool equal;
    uint32_t steps;              // iterations compared
    uint64_t parameter_count;    // compared, with what lies in gaps between tensors
    uint64_t differing;          // parameters whose bits differ, on any copy of their stage
    char layer[64];              // the first layer with one, or empty
    uint32_t copy;               // which copy of it, where there are several
    uint64_t index;              // its first differing parameter,
    float pipeline, sequential;  // and what it is on both sides
    uint32_t losses_differing;   // micro-batches whose losses differ
    double loss;                 // the mean over the micro-batches of the last pass of the schedule
};

// Runs `steps` iterations of both on the device of that name with the plan's optimizer and schedule.
// False when something could not be run; whether the two agree is in the result.
bool verify_plan(const struct plan *plan, const struct model *model, const struct run_place *place,
                 uint32_t steps, uint64_t seed, struct verification *result, struct error *error);

// The same on a lowered schedule of one's own that has the plan's stages; of the plan
// only cuts, segments and optimizer are looked at.
bool verify_schedule(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                     const struct run_place *place, uint32_t steps, uint64_t seed, struct verification *result,
                     struct error *error);

// The same of any layers, given twice since both sides may run at once: `ours` for
// the pipeline, `theirs` for the twin. On a CPU.
bool verify_layers(const struct plan *plan, const struct weir_layer *ours, const struct weir_layer *theirs,
                   size_t layer_count, uint32_t steps, struct verification *result, struct error *error);

#endif
