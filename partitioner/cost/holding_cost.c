#include "partitioner/cost/holding_cost.h"

#include <assert.h>

#include "common/number.h"

// The shares of all replicas but one. No less for more replicas.
static uint64_t others_of(uint64_t bytes, uint32_t replicas)
{
    return bytes - bytes / replicas;
}

bool holding_streams(const struct holding *holding, uint32_t layers)
{
    return holding->window > 0 && holding->shard < SHARD_GRADIENTS && layers > holding->window;
}

bool holding_is_sharded(const struct holding *holding, uint32_t replicas, enum shard what)
{
    return replicas > 1 && holding->shard >= what;
}

bool holding_gathers(const struct holding *holding, uint32_t replicas, uint32_t layers)
{
    return holding_streams(holding, layers) || holding_is_sharded(holding, replicas, SHARD_WEIGHTS);
}

bool holding_moves_layers(const struct holding *holding, uint32_t replicas, uint32_t layers)
{
    return holding_streams(holding, layers) || holding_is_sharded(holding, replicas, SHARD_GRADIENTS);
}

uint64_t host_states_bytes(const struct host_states *states)
{
    return add_clamped(add_clamped(states->weights, states->gradients), states->optimizer);
}

static struct shared_states shared_of(const struct stage_states *states, uint64_t tensor)
{
    return (struct shared_states){ states->layers, states->weights, states->optimizer, tensor };
}

struct held_bytes holding_bytes(const struct holding *holding, uint32_t replicas, const struct stage_states *states)
{
    struct held_bytes held = { .weights = states->weights,
                               .gradients = holding_gradient_bytes(holding, states->weights),
                               .optimizer = states->optimizer };
    const struct shared_states shared = shared_of(states, states->tensor);
    held.all_weights = held.weights;
    held.all_gradients = held.gradients;
    if (holding_is_sharded(holding, replicas, SHARD_OPTIMIZER))
        held.optimizer = holding_state_share(holding, &shared, replicas);
    if (holding_is_sharded(holding, replicas, SHARD_GRADIENTS))
        held.gradients = holding_share(holding, held.gradients, states->tensor, replicas);
    if (holding_is_sharded(holding, replicas, SHARD_WEIGHTS))
        held.weights = holding_share(holding, held.weights, states->tensor, replicas);
    held.version = held.weights;
    if (holding->optimizer_on_host) {
        const bool shares = holding_is_sharded(holding, replicas, SHARD_OPTIMIZER)
                         && !holding_streams(holding, states->layers);
        const uint64_t gradients = holding_gradient_bytes(holding, states->weights);
        held.host = (struct host_states){
            .weights = shares ? holding_share(holding, states->weights, states->tensor, replicas) : states->weights,
            .gradients = shares ? holding_share(holding, gradients, states->tensor, replicas) : gradients,
            .optimizer = held.optimizer,
        };
        held.optimizer = 0;
    }
    if (holding_streams(holding, states->layers)) {
        held.weights = held.version = states->window;
        held.gradients = holding_gradient_bytes(holding, states->window);
    }
    const uint64_t room = holding->window >= 2 ? states->window : states->largest;
    if (holding_is_sharded(holding, replicas, SHARD_GRADIENTS))
        held.room_gradients = holding_gradient_bytes(holding, room);
    if (holding_is_sharded(holding, replicas, SHARD_WEIGHTS))
        held.room_weights = room;
    held.gradients = add_clamped(held.gradients, held.room_gradients);
    held.weights = add_clamped(held.weights, held.room_weights);
    return held;
}

// Of weights in fp32.
static uint64_t sign_blocks_of(uint64_t weights)
{
    const uint64_t block = OPTIMIZER_SIGN_BLOCK * sizeof(float);
    return weights / block + (weights % block > 0);
}

uint64_t holding_reduce_ns(const struct holding *holding, uint32_t replicas, uint64_t weights, struct link link)
{
    // Sharded gradients are gone after each backward.
    if (replicas < 2 || weights == 0 || holding_is_sharded(holding, replicas, SHARD_GRADIENTS))
        return 0;
    const uint64_t others = optimizer_sends_signs(holding->optimizer)
                                ? others_of(sign_blocks_of(weights), replicas) * OPTIMIZER_SIGN_BYTES
                                : others_of(holding_gradient_bytes(holding, weights), replicas);
    const uint64_t way = transfer_ns(others, link.bytes_per_second, link.latency_ns);
    const bool once = holding_is_sharded(holding, replicas, SHARD_OPTIMIZER) && !holding->tied_apart;
    return once ? way : multiply_clamped(2, way);
}

static void add(uint64_t *to, uint64_t ns)
{
    *to = add_clamped(*to, ns);
}

// Each replica gets from each other that one's share.
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
static void add_step(const struct holding *holding, const struct stage_place *place,
                     const struct stage_states *states, struct cost_row *row)
{
    const bool shared = holding_is_sharded(holding, place->replicas, SHARD_OPTIMIZER);
    const struct shared_states even = shared_of(states, 0);
    const uint64_t weights = shared ? holding_share(holding, states->weights, 0, place->replicas) : states->weights;
    const uint64_t optimizer = shared ? holding_state_share(holding, &even, place->replicas) : states->optimizer;
    const uint64_t all = holding_gradient_bytes(holding, states->weights);
    const uint64_t gradients = shared ? holding_share(holding, all, 0, place->replicas) : all;
    if (holding->step_rate) {
        const uint64_t both = multiply_clamped(2, add_clamped(weights, optimizer));
        add(&row->step_ns, transfer_ns(add_clamped(both, gradients), holding->step_rate, 0));
    }
    if (holding->optimizer_on_host && !holding_streams(holding, states->layers)) {
        add(&row->step_ns, host_ns(place, gradients));
        add(&row->step_ns, host_ns(place, weights));
    }
}

void holding_add_times(const struct holding *holding, const struct stage_place *place,
                       const struct stage_states *states, struct cost_row *row)
{
    if (holding_is_plain(holding) || states->weights == 0)
        return;
    if (holding_is_sharded(holding, place->replicas, SHARD_OPTIMIZER) && holding->shard != SHARD_WEIGHTS)
        add(&row->step_ns, exchange_ns(place, states->weights));
    add_step(holding, place, states, row);
}

uint64_t holding_move_ns(const struct stage_place *place, uint64_t bytes)
{
    return host_ns(place, bytes);
}

uint64_t holding_meeting_ns(const struct stage_place *place, uint64_t bytes, uint32_t layers)
{
    return transfer_ns(bytes, place->link.bytes_per_second, multiply_clamped(layers, place->link.latency_ns));
}
