// Private: the struct weir_runtime, and how options become settings. A runtime has a part for each place of this
// process. A place (rank_places.h) has a device, and either one rank or all ranks of the run.
#ifndef API_WEIR_RUNNING_H
#define API_WEIR_RUNNING_H

#include "api/weir_handles.h"
#include "runtime/checkpoint/checkpoints.h"
#include "runtime/groups/rank_places.h"
#include "runtime/evaluation.h"
#include "runtime/pipeline.h"

// An optimizer of the caller's own. It lives as long as the settings that name it.
struct running_optimizer {
    const struct weir_layer *layers;
    const uint32_t *order;  // the plan's order of layers
    bool (*update)(void *self, const struct weir_update *update, struct weir_error *error);
    void *self;
};

struct running_part {
    const struct process_group *group;
    struct device *device;
    struct weir_layer *queued;  // copies of the layers, if the device runs ahead of C code (queued_layers.h)
    struct pipeline *pipeline;
    struct evaluation *evaluation;  // the last one; NULL: none yet
    struct checkpoints *checkpoints;  // NULL: no checkpoints
    struct manifest run;
    bool is_left;         // one of its ranks was left in a layer, or its device is stuck
    uint64_t left_bytes;  // bytes of memory that must stay because of that
};

struct weir_runtime {
    const struct plan *plan;
    const struct weir_layer *layers;
    size_t layer_count;
    struct weir_runtime_options options;
    struct weir_checkpoint_options checkpoints;  // unless options.checkpoints is NULL
    struct running_optimizer optimizer;
    struct launch launch;
    struct places *places;
    struct lasting_model *lasting;  // the layers as checkpoints know them
    char *words;                    // the author's, which the next checkpoint has; NULL: none
    uint32_t part_count;
    struct running_part *parts;
};

// Settings for these options. `running` is needed if options.update is set.
struct session_settings running_settings(const struct plan *plan, const struct weir_runtime_options *options,
                                         struct running_optimizer *running);

// The named device, or the default one for this many processes.
const char *running_device(const struct weir_runtime_options *options, uint32_t processes);

// Whether all processes have the same plan and numbers. True for a single process.
bool running_agrees(const struct weir_runtime *runtime, const struct process_group *group, struct error *error);

// --- checkpoints (weir_keeping.c) ----------------------------------------------------------

// The layers as checkpoints know them. Freed by lasting_model_free().
struct lasting_model *keeping_lasting(const struct weir_layer *layers, size_t count, enum optimizer_kind optimizer,
                                      struct error *error);

// How many checkpoints are kept.
uint32_t keeping_kept(const struct weir_checkpoint_options *options);

// Opens the checkpoints of a part that has its pipeline, and resumes from the newest if that is asked for.
bool keeping_open(const struct weir_runtime *runtime, struct running_part *part, struct error *error);
// After a step: begins a checkpoint if one is due, and looks at the result of those under way.
bool keeping_step(const struct weir_runtime *runtime, struct running_part *part, struct error *error);
bool keeping_save(const struct weir_runtime *runtime, struct running_part *part, struct error *error);
void keeping_close(struct running_part *part);

// Whether a checkpoint can have these words.
bool keeping_fits(const char *words, struct error *error);

#endif
