// The costs of a stage's states by its `storage`: bytes on its device and on its host, and time. W and G are the bytes
// of its weights and gradients (G is 2 W for optimizers that keep fp32 beside 16-bit weights, else W). It is less where
// there are lists of rows (storage_list_room()). O is the bytes of the optimizer's state, and r the number of replicas.
// A share is s(x) = ceil(x / r) and up to a block or tensor more, rounded up to 256 (storage_share(); for O
// storage_state_share()):
//
//     shard       weights        gradients      optimizer
//     none        W              G              O
//     optimizer   W              G              s(O)
//     gradients   W              s(G) + g       s(O)       g, w: the gradients, weights of the largest
//     weights     s(W) + w       s(G) + g       s(O)             layer, whole while it runs; of the largest n in a row
//                                                                with a window of n
//
// With the optimizer on the host, O is there instead, with room for what goes there and comes back. With a window of
// n layers and no sharded gradients, a stage of more than n layers has all its weights and gradients on the host.
// Its device has those of the n consecutive layers that take most.
//
// Time: kept activations move by actions of the schedule, and window_cost.h prices what moves layer by layer. Nothing
// else here is overlapped with anything, or meets other messages on a link, since a schedule does not say when it
// happens. A plan takes at most what is predicted. The formulas are in docs/memory.md.
#ifndef PARTITIONER_COST_STORAGE_COST_H
#define PARTITIONER_COST_STORAGE_COST_H

#include "partitioner/plan/storage.h"
#include "schedules/network.h"
#include "schedules/schedule.h"

// The place of a stage.
struct stage_place {
    uint64_t speed_permille;         // of the slowest device that holds it
    uint32_t replicas;               // that hold it
    struct link link;                // the longest latency and the lowest rate between any two of them
    uint64_t host_bytes_per_second;  // of a device, to and from its host; 0: there is no host
    bool has_recompute;                 // the schedule has R (recomputation) as an action of its own there
};

// Sums over the layers of a stage, in bytes. Each layer is rounded up to 256.
struct stage_states {
    uint32_t layers;
    uint32_t with_weights;  // how many of the layers have weights
    uint64_t weights, optimizer;
    uint64_t gradients;  // those of tables may be lists of rows (storage_layer_gradients())
    uint64_t version_less;  // bytes by which an older version is smaller than the weights, in one copy
    uint64_t largest;  // weights of the largest layer
    uint64_t tensor;   // weights of the largest tensor, for replicas that share by whole tensors
    uint64_t window;   // weights of the largest window; of a stage with fewer layers, all of them
    uint64_t state, statistics;  // without a gradient, and what a micro-batch leaves for it (layer_memory.h)
    uint64_t update_ns;  // for which the devices of a copy add up gradients (variant.h)
};

// The bytes that one replica has of these.
struct host_states {
    uint64_t weights, gradients, optimizer;
};
uint64_t host_states_bytes(const struct host_states *states);

// Sets what a replica holds: all of `bytes` (stage_cost.h) up to `host`.
struct stage_bytes;
void storage_put_bytes(const struct storage *storage, uint32_t replicas, const struct stage_states *states,
                       struct stage_bytes *bytes);

// Whether weights of a stage with this many layers are brought to its device layer by layer: from the host; and from
// the host or other replicas (all-gather).
bool storage_streams(const struct storage *storage, uint32_t layers);
bool storage_gathers(const struct storage *storage, uint32_t replicas, uint32_t layers);

// Whether anything comes or goes layer by layer: such weights, or gradients that replicas have shares of
// (reduce-scatter).
bool storage_moves_layers(const struct storage *storage, uint32_t replicas, uint32_t layers);

// Whether the replicas of a stage have shares of this. A stage with one replica is never sharded.
bool storage_is_sharded(const struct storage *storage, uint32_t replicas, enum shard what);

// The time in ns that a REDUCE takes the replicas of a stage over this link. The bytes are those of its weights, or
// what lists of rows count as (stage_reduced_bytes()). Each
// replica owns a share of the gradients. It receives its share from every other replica and adds them up in the
// order of the replicas. It then sends the sum to every other replica (runtime/transport/all_reduce.h,
// runtime/transport/wired/wired_reduction.c):
//
//     shares     G - floor(G / r) into each replica
//     sums       as much out of each, unless it updates its share alone; with tied layers apart always, since what
//                other stages add to is whole
//
// Replicas that compress (optimizer_compresses()) do both with compressed blocks.
uint64_t storage_reduce_ns(const struct storage *storage, uint32_t replicas, uint64_t weights, struct link link);

// Adds to STEP what its storage takes. (F, B, I and W: window_cost.h.) It does not use `largest`, `tensor` and
// `window` of `states`: shares of whole tensors are taken as even.
void storage_add_times(const struct storage *storage, const struct stage_place *place,
                       const struct stage_states *states, struct cost_row *row);

// The time in ns to move this many kept bytes to the host, or back. The move is an action of the schedule, beside
// others.
uint64_t storage_move_ns(const struct stage_place *place, uint64_t bytes);

// The time in ns to gather this many bytes of this many layers from shares, or to add them onto shares. It
// goes one layer after the other, each with its latency. A stage's shares are cut without regard to layers, so that
// most layers belong to one replica alone. All of such a layer goes over a link.
uint64_t storage_collective_ns(const struct stage_place *place, uint64_t bytes, uint32_t layers);

#endif
