// What the holding of states comes to for a stage: bytes on its device and on its
// host, and time. With W and G the bytes of weights and gradients (2 W of optimizers that
// keep fp32 beside 16-bit weights, else W), O of the optimizer's state, r replicas, a share
// s(x) = ceil(x / r), and up to a block or tensor more, rounded up to 256 (holding_share(); of O holding_state_share()):
//
//     shard       weights        gradients      optimizer
//     none        W              G              O
//     optimizer   W              G              s(O)
//     gradients   W              s(G) + g       s(O)       g, w: the gradients, weights of the largest
//     weights     s(W) + w       s(G) + g       s(O)             layer, whole while it runs; of the largest n in a row
//                                                                with a window of n
//
// With the optimizer on the host, O is there instead, with room for what goes there and
// comes back. With a window of n layers, and no sharded gradients, a stage of more has the largest n of
// consecutive layers' weights and gradients on the device, and all of them on the host.
//
// Time. But for what is kept, which moves by actions of the schedule, and for what moves layer by layer (window_cost.h),
// nothing here is overlapped with anything else, and it meets nobody on a link, since a schedule says nothing of when it
// happens: a plan takes at most what is predicted.
// docs/memory.md has the formulas.
#ifndef PARTITIONER_COST_HOLDING_COST_H
#define PARTITIONER_COST_HOLDING_COST_H

#include "partitioner/plan/holding.h"
#include "schedules/network.h"
#include "schedules/schedule.h"

// Where a stage stands.
struct stage_place {
    uint64_t speed_permille;         // of the slowest device that holds it
    uint32_t replicas;               // how many do
    struct link link;                // the longest latency and the least rate between two of them
    uint64_t host_bytes_per_second;  // of a device, to and from its host; 0: there is none
    bool runs_apart;                 // the schedule has R of its own there
};

// Sums over the layers of a stage; each layer rounded up to 256.
struct stage_states {
    uint32_t layers;
    uint32_t with_weights;  // how many of the layers have some
    uint64_t weights, optimizer;
    uint64_t largest;  // weights of a layer,
    uint64_t tensor;   // and of a tensor, where replicas share by these
    uint64_t window;   // weights of the largest window; of a stage with fewer layers, all of them
};

// What of it one replica has.
struct host_states {
    uint64_t weights, gradients, optimizer;
};
struct held_bytes {
    uint64_t weights, gradients, optimizer;  // on its device
    uint64_t all_weights, all_gradients;     // of all layers, wherever they are
    uint64_t room_weights, room_gradients;   // in the first two: for what comes layer by layer of others' shares
    uint64_t version;                        // one more version of the weights
    struct host_states host;                 // on its host
};
uint64_t host_states_bytes(const struct host_states *states);
struct held_bytes holding_bytes(const struct holding *holding, uint32_t replicas, const struct stage_states *states);

// Whether weights of a stage of so many layers are brought to its device layer by layer: from the host, and from
// anywhere.
bool holding_streams(const struct holding *holding, uint32_t layers);
bool holding_gathers(const struct holding *holding, uint32_t replicas, uint32_t layers);

// Whether anything of it comes or goes layer by layer: that, or gradients of which replicas have shares.
bool holding_moves_layers(const struct holding *holding, uint32_t replicas, uint32_t layers);

// Whether replicas of a stage have shares of that. Sharding begins where there are some to share.
bool holding_is_sharded(const struct holding *holding, uint32_t replicas, enum shard what);

// What a REDUCE takes the replicas of a stage with so many bytes of weights over this link. Each owns a share of the
// gradients: it gets its share from each other, adds them up in the order of the replicas, and sends every other one
// the sum (runtime/all_reduce.h, runtime/wired/wired_reduction.c):
//
//     shares     G - floor(G / r) into each replica
//     sums       as much out of each, unless it updates its share alone; with tied layers apart always, since what
//                other stages add to is whole
//
// Replicas that send signs (optimizer_sends_signs()) do both with blocks of these.
uint64_t holding_reduce_ns(const struct holding *holding, uint32_t replicas, uint64_t weights, struct link link);

// Adds to STEP what the holding takes. (To F, B, I and W: window_cost.h.) Of `states`, `largest`, `tensor` and `window`
// are not asked for: shares that are of whole tensors are taken as even.
void holding_add_times(const struct holding *holding, const struct stage_place *place,
                       const struct stage_states *states, struct cost_row *row);

// What so many kept bytes take to the host, or back: an action of the schedule beside others.
uint64_t holding_move_ns(const struct stage_place *place, uint64_t bytes);

// What it takes that so many bytes of so many layers are brought together from shares, or added onto them: a layer after
// the other, each with its latency. A stage's shares are cut without regard to layers, so that most layers are one
// replica's alone, and all of such a layer goes over a link.
uint64_t holding_meeting_ns(const struct stage_place *place, uint64_t bytes, uint32_t layers);

#endif
