// Groups of unlike size: where a stage is split over fewer devices than another, the members that it does not have
// follow it. They run its part of the schedule without its layers, and what it hands on is handed over to them:
//
//     member 0    stage 0, shard 0 --- stage 1, whole --- stage 2, shard 0
//                                           |               what comes out of it, forward and backward
//     member 1    stage 0, shard 1 --- ... follows .. --- stage 2, shard 1
//
// So every stage finds a whole pipeline around it. A stage that is followed has no weights and keeps nothing there:
// only buffers, for messages that a real group's members would get from the stage's first device.
#ifndef RUNTIME_FOLLOWERS_H
#define RUNTIME_FOLLOWERS_H

#include "partitioner/plan/plan.h"
#include "runtime/shard_meeting.h"

struct followers;

struct followers_request {
    const struct plan *plan;
    // By member, NULL of those elsewhere; of a stage that a member does not have they are not called.
    const struct weir_layer *const *layers;
    const struct weir_layer *whole;  // of one of them
    uint32_t members;
    size_t layer_count;
    struct shard_meeting *meeting;  // with followers_places() more places, from `first_place` on
    uint32_t first_place, copies;   // copies of a stage, at most
};

// Layers and meeting are borrowed. Refuses layers that are tied to one that members do not have.
struct followers *followers_create(const struct followers_request *request, struct error *error);
void followers_free(struct followers *followers);

uint32_t followers_places(const struct plan *plan, uint32_t copies);

// A member's layers, to be run in place of the given ones.
const struct weir_layer *followers_layers(const struct followers *followers, uint32_t member);

#endif
