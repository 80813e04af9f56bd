// Private: what is behind a struct weir_runtime, a part for each place of this process (rank_places.h), and how options become
// settings.
#ifndef RUNTIME_WEIR_RUNNING_H
#define RUNTIME_WEIR_RUNNING_H

#include "runtime/checkpoint/checkpoints.h"
#include "runtime/pipeline.h"
#include "runtime/rank_places.h"
#include "runtime/weir_handles.h"

// An optimizer of one's own, which lives as long as the settings that name it.
struct running_optimizer {
    const struct weir_layer *layers;
    const uint32_t *order;  // of the plan
    bool (*update)(void *self, const struct weir_update *update, struct weir_error *error);
    void *self;
};

struct running_part {
    const struct process_group *group;
    struct device *device;
    struct weir_layer *queued;  // the layers, where the device runs ahead of C (queued_layers.h)
    struct pipeline *pipeline;
    struct checkpoints *checkpoints;  // NULL: none are kept
    struct manifest run;
    bool is_left;         // a rank of it was left in a layer, or its device is stuck
    uint64_t left_bytes;  // with memory that stays
};

struct weir_runtime {
    const struct plan *plan;
    const struct weir_layer *layers;
    size_t layer_count;
    struct weir_running running;
    struct running_optimizer optimizer;
    struct launch launch;
    struct places *places;
    struct lasting_model *lasting;  // of checkpoints
    uint32_t part_count;
    struct running_part *parts;
};

// `own` is needed where running.update is.
struct session_settings running_settings(const struct plan *plan, const struct weir_running *running,
                                         struct running_optimizer *own);

// The device that is named, or the usual one of so many processes.
const char *running_device(const struct weir_running *running, uint32_t processes);

// All processes have the same plan and numbers. Of one alone, true.
bool running_agrees(const struct weir_runtime *runtime, const struct process_group *group, struct error *error);

// --- checkpoints (weir_keeping.c) ----------------------------------------------------------

// The layers as checkpoints know them. Freed by lasting_model_free().
struct lasting_model *keeping_lasting(const struct weir_layer *layers, size_t count, enum optimizer_kind optimizer,
                                      struct error *error);

// How many checkpoints stay.
uint32_t keeping_kept(const struct weir_keeping *keeping);

// Of a part that has its pipeline: goes on from the newest checkpoint where that is asked for.
bool keeping_open(const struct weir_runtime *runtime, struct running_part *part, struct error *error);
// After a step: begins a checkpoint where one is due, and hears of those under way.
bool keeping_step(struct running_part *part, struct error *error);
bool keeping_save(const struct weir_runtime *runtime, struct running_part *part, struct error *error);
void keeping_close(struct running_part *part);

#endif
