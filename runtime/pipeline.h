// A plan at work: its schedule, its stages made of a model's layers, and a session that runs them on threads of this
// process.
#ifndef RUNTIME_PIPELINE_H
#define RUNTIME_PIPELINE_H

#include "partitioner/plan/plan.h"
#include "runtime/groups/rank_grid.h"
#include "runtime/ranks/interpreter.h"
#include "runtime/run.h"
#include "runtime/stages/chain.h"

// Pipelines that run side by side, whose layers are shards (tensor-parallel groups, shard_pipelines.h), and how
// shards make up a layer. With this, reads and writes of the first pipeline are of whole layers (pipeline_shards.h).
struct pipeline_shards {
    struct pipeline *const *of;  // by member of the group; NULL if the member is in another process
    const struct rank_grid *grid;
    void *self;
    uint32_t (*members)(void *self, uint32_t layer);      // how many members have the layer or a shard of it
    bool (*is_split)(void *self, uint32_t layer);
    uint64_t (*whole_bytes)(void *self, uint32_t layer);  // bytes of the layer's parameters
    uint64_t (*own_bytes)(void *self, uint32_t layer);    // bytes of one member's shard of them
    // Copy between a shard and the whole layer, of a part of its state that has `number_bytes` for each parameter; 0: a
    // float for each row, of tables.
    void (*cut)(void *self, uint32_t layer, uint32_t member, uint32_t part, uint64_t number_bytes, void *shard,
                const void *whole);
    void (*join)(void *self, uint32_t layer, uint32_t member, uint32_t part, uint64_t number_bytes, const void *shard,
                 void *whole);
    // A shard may be on the host, with some of it on the device: so many bytes, or 0. The shard given what is there;
    // and a shard is taken, which says what goes there.
    uint64_t (*room_bytes)(void *self, uint32_t layer);
    void (*get)(void *self, uint32_t layer, uint32_t member, uint32_t part, const void *there, void *shard);
    bool (*put)(void *self, uint32_t layer, uint32_t member, uint32_t part, const void *shard, void *there,
                struct error *error);
};

struct pipeline {
    struct schedule *schedule;  // lowered
    struct chain **chains;      // one for each stage
    struct stage *stages;
    struct session *session;
    const struct plan *plan;
    const struct weir_layer *layers;  // in the order in which the stages hold them
    struct weir_layer *ordered;       // the same array, owned, if the plan has an order of its own; else NULL
    // position of each layer of the model in that order; callers use the model's numbers
    uint32_t *place;
    // In the model's order of layers, the number of each auxiliary loss (auxiliary_losses.h); NULL: they are in it
    uint32_t *auxiliary_order;
    uint64_t number_bytes;  // bytes of one weight
    const struct pipeline_shards *shards;  // only in the first of several pipelines; NULL: layers are whole
};

// Checks that the plan belongs to these layers (names, order, bytes), proves that the schedule can run, and creates
// stages and session. An iteration has the plan's micro-batches if the schedule flushes; an asynchronous run has
// `runs` times as many. Layers, plan and device are borrowed. NULL with the reason if something fails.
struct pipeline *pipeline_create(const struct plan *plan, const struct weir_layer *layers, size_t layer_count,
                                 struct device *device, uint32_t runs, const struct session_settings *settings,
                                 struct error *error);
// The same with another lowered schedule, in any order that has the plan's stages. The schedule is copied.
struct pipeline *pipeline_create_on(const struct schedule *schedule, const struct plan *plan,
                                    const struct weir_layer *layers, size_t layer_count, struct device *device,
                                    const struct session_settings *settings, struct error *error);
// Whether a lowered schedule can run. If not, the error says which rank could not go on.
bool pipeline_prove(const struct schedule *schedule, struct error *error);
// Like session_free(): if ranks were left in a layer, everything that the stages are made of stays, and so must
// layers and plan.
uint64_t pipeline_free(struct pipeline *pipeline);

// The number of ranks that have a layer's parameters, and the newest parameters of one of these copies, read into
// parameter_bytes of host memory. Ranks that have the parameters only because another layer is tied to it count as
// well, and come last.
uint32_t pipeline_copies(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, uint64_t bytes,
                              void *host, struct error *error);

// The same for the state without a gradient, which only the layer's own stage has: state_bytes of it.
uint32_t pipeline_state_copies(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_read_state(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host,
                         struct error *error);

// All processes get what that of the layer's first copy has.
bool pipeline_tell(const struct pipeline *pipeline, uint32_t layer, void *data, uint64_t bytes, struct error *error);

// The auxiliary losses of the last step, of a layer that has one: one of each micro-batch.
void pipeline_auxiliary_losses(const struct pipeline *pipeline, uint32_t layer, float *losses);

// --- state that lasts from one step to the next (run.h), by layer ----------------------
//
// Part 0 is the parameters; the others are the optimizer state. LAYER_STATE is the state without a gradient, which
// pipeline_parts() does not count. The state of a layer is that of the first of
// pipeline_copies(); the other copies are equal.

uint32_t pipeline_parts(const struct pipeline *pipeline);  // 1 or more
uint64_t pipeline_part_bytes(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
// pipeline_has_first() says whether the first copy is on a rank of this process. If it is, pipeline_read_part() reads
// it into host memory. pipeline_has_any() says whether any copy is on a rank of this process. If one is,
// pipeline_write_part() writes all copies that are here.
bool pipeline_has_first(const struct pipeline *pipeline, uint32_t layer);
// Whether a part is sharded: over replicas (ZeRO), or over devices of a tensor-parallel group. If it is, all ranks
// have to read it, in the same order; a rank that does not need the data passes NULL.
bool pipeline_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
bool pipeline_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                        struct error *error);
bool pipeline_has_any(const struct pipeline *pipeline, uint32_t layer);
bool pipeline_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                         struct error *error);

uint64_t pipeline_updates(const struct pipeline *pipeline, uint32_t layer);
// Before the first step: continue as if `steps` steps had been made, and `updates` updates of each layer. A stage
// takes the largest number of its layers.
bool pipeline_go_on(const struct pipeline *pipeline, uint64_t steps, const uint64_t *updates,
                    const struct loss_scaling *scaling, struct error *error);

#endif
