#include "partitioner/cost/storage_cost.h"

#include <assert.h>

#include "common/number.h"
#include "partitioner/cost/stage_cost.h"

// The shares of all replicas but one. They do not get less with more replicas.
static uint64_t others_of(uint64_t bytes, uint32_t replicas)
{
    return bytes - bytes / replicas;
}

bool storage_streams(const struct storage *storage, uint32_t layers)
{
    return storage->window > 0 && storage->shard < SHARD_GRADIENTS && layers > storage->window;
}

bool storage_is_sharded(const struct storage *storage, uint32_t replicas, enum shard what)
{
    return replicas > 1 && storage->shard >= what;
}

bool storage_gathers(const struct storage *storage, uint32_t replicas, uint32_t layers)
{
    return storage_streams(storage, layers) || storage_is_sharded(storage, replicas, SHARD_WEIGHTS);
}

bool storage_moves_layers(const struct storage *storage, uint32_t replicas, uint32_t layers)
{
    return storage_streams(storage, layers) || storage_is_sharded(storage, replicas, SHARD_GRADIENTS);
}

uint64_t host_states_bytes(const struct host_states *states)
{
    return add_clamped(add_clamped(states->weights, states->gradients), states->optimizer);
}

static struct shared_states shared_of(const struct stage_states *states, uint64_t tensor)
{
    return (struct shared_states){ states->layers, states->weights, states->optimizer, tensor };
}

void storage_put_bytes(const struct storage *storage, uint32_t replicas, const struct stage_states *states,
                       struct stage_bytes *bytes)
{
    const struct shared_states shared = shared_of(states, states->tensor);
    bytes->weights = bytes->all_weights = states->weights;
    bytes->gradients = states->gradients;
    bytes->optimizer = states->optimizer;
    bytes->state = states->state;
    bytes->statistics = states->statistics;
    bytes->host = (struct host_states){ 0 };
    if (storage_is_sharded(storage, replicas, SHARD_OPTIMIZER))
        bytes->optimizer = storage_state_share(storage, &shared, replicas);
    if (storage_is_sharded(storage, replicas, SHARD_GRADIENTS))
        bytes->gradients = storage_share(storage, bytes->gradients, states->tensor, replicas);
    if (storage_is_sharded(storage, replicas, SHARD_WEIGHTS))
        bytes->weights = storage_share(storage, bytes->weights, states->tensor, replicas);
    bytes->version = bytes->weights - (replicas == 1 ? states->version_less : 0);
    if (storage->optimizer_on_host) {
        const bool shares = storage_is_sharded(storage, replicas, SHARD_OPTIMIZER)
                         && !storage_streams(storage, states->layers);
        const uint64_t gradients = storage_gradient_bytes(storage, states->weights);
        bytes->host = (struct host_states){
            .weights = shares ? storage_share(storage, states->weights, states->tensor, replicas) : states->weights,
            .gradients = shares ? storage_share(storage, gradients, states->tensor, replicas) : gradients,
            .optimizer = bytes->optimizer,
        };
        bytes->optimizer = 0;
    }
    if (storage_streams(storage, states->layers)) {
        bytes->weights = bytes->version = states->window;
        bytes->gradients = storage_gradient_bytes(storage, states->window);
    }
    const uint64_t room = storage->window >= 2 ? states->window : states->largest;
    bytes->room_gradients =
        storage_is_sharded(storage, replicas, SHARD_GRADIENTS) ? storage_gradient_bytes(storage, room) : 0;
    bytes->room_weights = storage_is_sharded(storage, replicas, SHARD_WEIGHTS) ? room : 0;
    bytes->gradients = add_clamped(bytes->gradients, bytes->room_gradients);
    bytes->weights = add_clamped(bytes->weights, bytes->room_weights);
}

// The number of compressed blocks, for weights in fp32.
static uint64_t sign_blocks_of(uint64_t weights)
{
    const uint64_t block = OPTIMIZER_SIGN_BLOCK * sizeof(float);
    return weights / block + (weights % block > 0);
}

uint64_t storage_reduce_ns(const struct storage *storage, uint32_t replicas, uint64_t weights, struct link link)
{
    // Sharded gradients have gone to their owners after each backward.
    if (replicas < 2 || weights == 0 || storage_is_sharded(storage, replicas, SHARD_GRADIENTS))
        return 0;
    const uint64_t others = optimizer_compresses(storage->optimizer)
                                ? others_of(sign_blocks_of(weights), replicas) * OPTIMIZER_SIGN_BYTES
                                : others_of(storage_gradient_bytes(storage, weights), replicas);
    const uint64_t way = transfer_ns(others, link.bytes_per_second, link.latency_ns);
    const bool once = storage_is_sharded(storage, replicas, SHARD_OPTIMIZER) && !storage->tied_apart;
    return once ? way : multiply_clamped(2, way);
}

static void add(uint64_t *to, uint64_t ns)
{
    *to = add_clamped(*to, ns);
}

// Each replica gets the share of every other replica.
static uint64_t exchange_ns(const struct stage_place *place, uint64_t bytes)
{
    return transfer_ns(others_of(bytes, place->replicas), place->link.bytes_per_second, place->link.latency_ns);
}

static uint64_t host_ns(const struct stage_place *place, uint64_t bytes)
{
    assert(place->host_bytes_per_second > 0);
    return transfer_ns(bytes, place->host_bytes_per_second, 0);
}

// An update reads weights, gradients and states, and writes weights and states.
static void add_step(const struct storage *storage, const struct stage_place *place,
                     const struct stage_states *states, struct cost_row *row)
{
    const bool shared = storage_is_sharded(storage, place->replicas, SHARD_OPTIMIZER);
    const struct shared_states even = shared_of(states, 0);
    const uint64_t weights = shared ? storage_share(storage, states->weights, 0, place->replicas) : states->weights;
    const uint64_t optimizer = shared ? storage_state_share(storage, &even, place->replicas) : states->optimizer;
    const uint64_t all = storage_gradient_bytes(storage, states->weights);
    const uint64_t gradients = shared ? storage_share(storage, all, 0, place->replicas) : all;
    if (storage->step_rate) {
        const uint64_t both = multiply_clamped(2, add_clamped(weights, optimizer));
        add(&row->step_ns, transfer_ns(add_clamped(both, gradients), storage->step_rate, 0));
    }
    if (storage->optimizer_on_host && !storage_streams(storage, states->layers)) {
        add(&row->step_ns, host_ns(place, gradients));
        add(&row->step_ns, host_ns(place, weights));
    }
}

void storage_add_times(const struct storage *storage, const struct stage_place *place,
                       const struct stage_states *states, struct cost_row *row)
{
    add(&row->step_ns, states->update_ns);
    if (storage_is_plain(storage) || states->weights == 0)
        return;
    if (storage_is_sharded(storage, place->replicas, SHARD_OPTIMIZER) && storage->shard != SHARD_WEIGHTS)
        add(&row->step_ns, exchange_ns(place, states->weights));
    add_step(storage, place, states, row);
}

uint64_t storage_move_ns(const struct stage_place *place, uint64_t bytes)
{
    return host_ns(place, bytes);
}

uint64_t storage_collective_ns(const struct stage_place *place, uint64_t bytes, uint32_t layers)
{
    return transfer_ns(bytes, place->link.bytes_per_second, multiply_clamped(layers, place->link.latency_ns));
}
