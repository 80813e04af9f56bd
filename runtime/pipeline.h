// A plan, put to work: its schedule, its stages made of a model's layers, and a
// session that runs them on the threads of this process.
#ifndef RUNTIME_PIPELINE_H
#define RUNTIME_PIPELINE_H

#include "partitioner/plan/plan.h"
#include "runtime/chain.h"
#include "runtime/run.h"
#include "runtime/seats.h"

// Pipelines side by side whose layers are shards (shard_pipelines.h), and how those make up a layer: what is read of
// the first pipeline, and written to it, is then of whole layers (pipeline_shards.h).
struct pipeline_shards {
    struct pipeline *const *of;  // by member; NULL of those elsewhere
    const struct seats *seats;
    void *self;
    uint32_t (*members)(void *self, uint32_t layer);      // that have it, or a shard of it:
    bool (*is_split)(void *self, uint32_t layer);
    uint64_t (*whole_bytes)(void *self, uint32_t layer);  // of its parameters,
    uint64_t (*own_bytes)(void *self, uint32_t layer);    // and of a member's
    // Between a shard and the layer, of numbers of so many bytes for each parameter.
    void (*cut)(void *self, uint32_t layer, uint32_t member, uint64_t number_bytes, void *own, const void *whole);
    void (*join)(void *self, uint32_t layer, uint32_t member, uint64_t number_bytes, const void *own, void *whole);
};

struct pipeline {
    struct schedule *schedule;  // lowered
    struct chain **chains;      // a stage each
    struct stage *stages;
    struct session *session;
    const struct plan *plan;
    const struct weir_layer *layers;  // as the stages hold them,
    struct weir_layer *ordered;       // which are these where the plan has an order of its own;
    uint32_t *place;                  // and where each layer of the model is. All that is asked for is by the model's
    uint64_t number_bytes;  // of one of the weights
    const struct pipeline_shards *shards;  // of the first of several; NULL: layers are as they are
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
// As session_free(): where ranks were left, all that a stage is made of stays, too, and layers and plan have to.
uint64_t pipeline_free(struct pipeline *pipeline);

// On how many ranks the parameters of a layer are, those included that have them for a layer
// that is tied to it, which come last; and one copy's newest, into host memory of its
// parameter_bytes.
uint32_t pipeline_copies(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, uint64_t bytes,
                              void *host, struct error *error);

// --- what lasts from one step to the next (run.h), by layer ---------------------------
//
// Part 0, the parameters; and what the optimizer keeps of them. Those of a layer are the first of pipeline_copies();
// the others are alike.

uint32_t pipeline_parts(const struct pipeline *pipeline);  // 1 and more
uint64_t pipeline_part_bytes(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
// Whether the first copy is on a rank of this process, and then into host memory; whether any is, and then to all here.
bool pipeline_has_first(const struct pipeline *pipeline, uint32_t layer);
// What replicas share of a part is with several ranks, as are shards with a device each: all read it then, in the same
// order, those who have no use of it with NULL.
bool pipeline_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
bool pipeline_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                        struct error *error);
bool pipeline_has_any(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                         struct error *error);

uint64_t pipeline_updates(const struct pipeline *pipeline, uint32_t layer);
// Before the first step: as if `steps` had been made, and of each layer so many updates. A stage counts as its layer
// that has seen the most.
bool pipeline_go_on(const struct pipeline *pipeline, uint64_t steps, const uint64_t *updates,
                    const struct loss_scaling *scaling, struct error *error);

#endif
