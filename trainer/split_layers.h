// The layers of a plan's model, for every member of the tensor-parallel groups that its stages are split over
// (models/shards.h).
#ifndef TRAINER_SPLIT_LAYERS_H
#define TRAINER_SPLIT_LAYERS_H

#include "runtime/shard_pipelines.h"
#include "runtime/shards/member_messages.h"
#include "runtime/shards/proxy_stages.h"
#include "runtime/updates/clipping.h"
#include "trainer/model_layers.h"
#include "trainer/run_place.h"

struct split_layers {
    uint32_t members;               // of the largest group; 1: nothing is split
    uint32_t copies;                // of a layer that may be called at the same time
    struct rank_grid grid;          // which members have a device of their own, and where (runtime/groups/rank_grid.h)
    struct shard_group *group;  // the group's collectives; NULL if nothing is split
    struct model_layers **of;       // by member; NULL for members in other processes
    uint32_t *shards;               // number of shards, by layer of the model
    size_t *rooms;                  // rows of tables on the device, if the others are on the host; else 0
    bool has_rooms, has_variants;   // of any layer; of any stage
    bool *messages;                 // by layer, whether the runtime exchanges what it reads (models/vector_exchange.c)
    struct member_messages *exchanged;  // NULL: no layer's
    struct host_tables *host;       // NULL: no tables are on the host
    struct sharding how;            // of all layers; `shards` says over how many each is split
    char *places;                   // of tables; NULL without
    // For stages with a smaller group than others: the members that such a stage lacks run its messages only
    // (proxy_stages.h).
    struct proxy_stages *followers;
    const struct weir_layer **layers;
    const struct model *model;
    struct split_layer *splits;     // by place in the plan, for clipping gradients
    struct split_norms norms;
    uint32_t first_norm_place;      // first place of the group for norms; there is one for each rank
    struct pipeline_shards joining;  // how the shards' parameters make up those of the model's layers
};

// Makes the layers. A collective call of all processes of a run. Returns NULL with `error`, also if a stage has a
// variant that `weir profile --tensor` did not measure. Borrows the model, the device and the process group. Freed by
// split_layers_free().
struct split_layers *split_layers_create(const struct plan *plan, const struct model *model, struct device *device,
                                         const struct batch_settings *settings, const struct run_place *place,
                                         struct error *error);
void split_layers_free(struct split_layers *layers);

// Layers in which all shards of a layer run as one, for the sequential twin. Freed by model_layers_free().
struct model_layers *split_layers_of_twin(const struct split_layers *layers, const struct model *model,
                                          struct device *device, const struct batch_settings *settings,
                                          struct error *error);

// Whether members have less room for the rows of experts than these may take.
bool split_layers_may_lack_rows(const struct split_layers *layers);

// The layers of the first member in this process. Borrowed.
const struct weir_layer *split_layers_first(const struct split_layers *layers);

// How shards make up layers, for shard_pipelines_join(); NULL: all layers are whole.
struct pipeline_shards *split_layers_joining(struct split_layers *layers);

// Before each step: brings the rows of tables that the step reads from the host to the device (host_tables.h).
bool split_layers_turn(struct split_layers *layers, struct pipeline *pipeline, struct error *error);

// The exchanges of rows of a layer's experts in a pass (shard_group.h). The first function is called before the pass.
void split_layers_time_anew(const struct split_layers *layers);
struct exchange_time split_layers_time(const struct split_layers *layers, uint32_t layer);

// Sets what sessions of split pipelines need in `settings`. False with `error` for an optimizer that cannot run with
// split layers.
bool split_layers_settle(struct split_layers *layers, struct session_settings *settings, struct error *error);

#endif
