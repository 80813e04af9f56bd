// Tensor-parallel groups of unequal size. If a stage is split over fewer devices than another, the members that it
// lacks follow it. They run its part of the schedule without its layers, and get copies of what it passes on:
//
//     member 0    stage 0, shard 0 --- stage 1, whole --- stage 2, shard 0
//                                           |               its output forward, its input's gradient backward
//     member 1    stage 0, shard 1 --- .. follows it .. --- stage 2, shard 1
//
// So every stage has a whole pipeline around it. On a member that follows, a stage has no weights and keeps nothing.
// It has only buffers, for messages that the members of a real group would get from the stage's first device.
#ifndef RUNTIME_SHARDS_PROXY_STAGES_H
#define RUNTIME_SHARDS_PROXY_STAGES_H

#include "partitioner/plan/plan.h"
#include "runtime/shards/shard_group.h"

struct proxy_stages;

struct proxy_stages_request {
    const struct plan *plan;
    // By member; NULL for members elsewhere. For a stage that a member does not have, they are not called.
    const struct weir_layer *const *layers;
    const struct weir_layer *whole;  // the layers of one member
    uint32_t members;
    size_t layer_count;
    struct shard_group *group;  // it has proxy_stages_places() more places, from `first_place` on
    uint32_t first_place, copies;   // the most copies of a stage
};

// Layers and group are borrowed. Fails if a layer is tied to one on a stage whose group has another size.
struct proxy_stages *proxy_stages_create(const struct proxy_stages_request *request, struct error *error);
void proxy_stages_free(struct proxy_stages *proxies);

// How many places of the group proxies need, with at most `copies` copies of a stage.
uint32_t proxy_stages_places(const struct plan *plan, uint32_t copies);

// A member's layers, to be run in place of the given ones.
const struct weir_layer *proxy_stages_layers(const struct proxy_stages *proxies, uint32_t member);

#endif
