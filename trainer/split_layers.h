// The layers of a plan's model, for every member of the groups that its stages are split over (models/shards.h).
#ifndef TRAINER_SPLIT_LAYERS_H
#define TRAINER_SPLIT_LAYERS_H

#include "runtime/clipping.h"
#include "runtime/followers.h"
#include "runtime/shard_pipelines.h"
#include "trainer/model_layers.h"
#include "trainer/run_place.h"

struct split_layers {
    uint32_t members;               // 1: nothing is split
    struct seats seats;             // who has a device of its own
    struct shard_meeting *meeting;  // NULL then
    struct model_layers **of;       // by member; NULL of those elsewhere
    uint32_t *shards;               // by layer of the model
    bool shares_rows;               // whether members share what layers hand on
    struct followers *followers;
    const struct weir_layer **layers;
    const struct model *model;
    struct split_layer *splits;     // by layer, as gradients are clipped by
    struct split_norms norms;
    uint32_t first_norm_place;      // of the meeting: one for each rank
    struct pipeline_shards joining;  // how their parameters make up those of the model's layers
};

// Refuses variants that are not ours. All places of a run together.
struct split_layers *split_layers_create(const struct plan *plan, const struct model *model, struct device *device,
                                         const struct batch_settings *settings, const struct run_place *place,
                                         struct error *error);
void split_layers_free(struct split_layers *layers);

// All shards of a layer as one, for the sequential twin.
struct model_layers *split_layers_of_twin(const struct split_layers *layers, const struct model *model,
                                          struct device *device, const struct batch_settings *settings,
                                          struct error *error);

// Those of the first member here.
const struct weir_layer *split_layers_first(const struct split_layers *layers);

// The session's, of pipelines that are split. Refuses what they are not run with.
bool split_layers_settle(struct split_layers *layers, struct session_settings *settings, struct error *error);

#endif
