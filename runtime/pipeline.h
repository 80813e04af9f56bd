// A plan, put to work: its schedule, its stages made of a model's layers, and a
// session that runs them on the threads of this process.
#ifndef RUNTIME_PIPELINE_H
#define RUNTIME_PIPELINE_H

#include "partitioner/plan/plan.h"
#include "runtime/chain.h"
#include "runtime/run.h"

struct pipeline {
    struct schedule *schedule;  // lowered
    struct chain **chains;      // a stage each
    struct stage *stages;
    struct session *session;
    const struct plan *plan;
    const struct weir_layer *layers;
};

// Checks that the plan is of these layers (names, order, bytes), proves the schedule,
// and makes everything. An iteration has the plan's micro-batches if the schedule
// flushes; an asynchronous run has `runs` times as many. Layers, plan and device
// are borrowed.
struct pipeline *pipeline_create(const struct plan *plan, const struct weir_layer *layers, size_t layer_count,
                                 struct device *device, uint32_t runs, const struct session_settings *settings,
                                 struct error *error);
// The same on a lowered schedule of one's own, which is copied: any order that has the
// plan's stages.
struct pipeline *pipeline_create_on(const struct schedule *schedule, const struct plan *plan,
                                    const struct weir_layer *layers, size_t layer_count, struct device *device,
                                    const struct session_settings *settings, struct error *error);
void pipeline_free(struct pipeline *pipeline);

// On how many ranks the parameters of a layer are, those included that have them for a layer
// that is tied to it, which come last; and one copy's newest, into host memory of its
// parameter_bytes.
uint32_t pipeline_copies(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, uint64_t bytes,
                              void *host, struct error *error);

#endif
