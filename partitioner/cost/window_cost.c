#include "partitioner/cost/window_cost.h"

#include "common/number.h"
#include "partitioner/cost/stage_cost.h"

// An action as the window sees it.
struct action_of_layers {
    bool from_last, adds_up;
    size_t of_layer, of_row;  // offsets of its time
};

static const struct action_of_layers actions[] = {
    { false, false, offsetof(struct profile_layer, forward_ns), offsetof(struct cost_row, forward_ns) },
    { true, true, offsetof(struct profile_layer, backward_ns), offsetof(struct cost_row, backward_ns) },
    { true, false, offsetof(struct profile_layer, backward_input_ns), offsetof(struct cost_row, backward_input_ns) },
    { true, true, offsetof(struct profile_layer, backward_weight_ns), offsetof(struct cost_row, backward_weight_ns) },
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

// The states of layers that move, and the link they take.
struct moving {
    const struct storage *storage;
    const struct stage_place *place;
    bool is_host;
    bool has_weights, has_gradients;  // weights come; gradients go back, and from the host also come with the weights
};

static struct moving moving_of(const struct storage *storage, const struct stage_place *place, uint32_t layers)
{
    const bool is_host = storage_streams(storage, layers);
    return (struct moving){ .storage = storage, .place = place, .is_host = is_host,
                            .has_weights = storage_gathers(storage, place->replicas, layers),
                            .has_gradients = storage_moves_layers(storage, place->replicas, layers) };
}

static uint64_t way_ns(const struct moving *moving, uint64_t bytes, uint32_t layers)
{
    return moving->is_host ? storage_move_ns(moving->place, bytes)
                           : storage_collective_ns(moving->place, bytes, layers);
}

static uint64_t gradients_ns(const struct moving *moving, uint64_t weights, uint32_t layers)
{
    return moving->has_gradients ? way_ns(moving, storage_gradient_bytes(moving->storage, weights), layers) : 0;
}

// For an action on layers with this many bytes of weights: what comes, and what goes back, in ns.
static uint64_t come_ns(const struct moving *moving, bool adds_up, uint64_t weights, uint32_t layers)
{
    const uint64_t so_far = adds_up && moving->is_host ? gradients_ns(moving, weights, layers) : 0;
    return add_clamped(so_far, moving->has_weights ? way_ns(moving, weights, layers) : 0);
}

static uint64_t go_ns(const struct moving *moving, bool adds_up, uint64_t weights, uint32_t layers)
{
    return adds_up ? gradients_ns(moving, weights, layers) : 0;
}

// The layers of a stage in the order of an action.
struct passing {
    struct moving moving;
    const struct profile *profile;
    uint32_t first, end;
    const struct action_of_layers *action;
};

static void add(uint64_t *to, uint64_t ns)
{
    *to = add_clamped(*to, ns);
}

static uint64_t *time_in(struct cost_row *row, const struct action_of_layers *action)
{
    return (uint64_t *)((char *)row + action->of_row);
}

static uint32_t layer_at(const struct passing *passing, uint32_t step)
{
    return passing->action->from_last ? passing->end - 1 - step : passing->first + step;
}

static uint64_t weights_at(const struct passing *passing, uint32_t step)
{
    return stage_layer_weights(passing->profile, passing->first, passing->end, layer_at(passing, step));
}

static uint64_t goes_ns(const struct passing *passing, uint32_t step)
{
    const uint64_t weights = weights_at(passing, step);
    return go_ns(&passing->moving, passing->action->adds_up, weights, weights > 0);
}

static uint64_t comes_ns(const struct passing *passing, uint32_t step)
{
    const uint64_t weights = weights_at(passing, step);
    return come_ns(&passing->moving, passing->action->adds_up, weights, weights > 0);
}

static uint64_t computes_ns(const struct passing *passing, uint32_t step)
{
    const struct profile_layer *layer = &passing->profile->layers[layer_at(passing, step)];
    return stage_scaled_ns(*(const uint64_t *)((const char *)layer + passing->action->of_layer),
                           passing->moving.place->speed_permille);
}

// The time of moves that computing does not cover.
static uint64_t uncovered_ns(const struct passing *passing)
{
    const uint32_t count = passing->end - passing->first;
    uint64_t added = add_clamped(comes_ns(passing, 0), goes_ns(passing, count - 1));
    for (uint32_t step = 0; step < count; step++) {
        const uint64_t back = step > 0 ? goes_ns(passing, step - 1) : 0;
        const uint64_t moved = add_clamped(back, step + 1 < count ? comes_ns(passing, step + 1) : 0);
        const uint64_t computed = computes_ns(passing, step);
        add(&added, moved > computed ? moved - computed : 0);
    }
    return added;
}

bool window_overlaps(const struct storage *storage, const struct profile *profile, const struct cost_row *row)
{
    return storage->window >= 2 && profile->is_chain && profile->tied_count == 0 && profile->one_owner_count == 0
        && row->recompute_ns == 0;
}

void window_add_in_turn(const struct storage *storage, const struct stage_place *place,
                        const struct stage_states *states, struct cost_row *row)
{
    const struct moving moving = moving_of(storage, place, states->layers);
    for (size_t i = 0; i < ACTIONS; i++) {
        add(time_in(row, &actions[i]), come_ns(&moving, actions[i].adds_up, states->weights, states->with_weights));
        add(time_in(row, &actions[i]), go_ns(&moving, actions[i].adds_up, states->weights, states->with_weights));
    }
}

void window_add_overlapping(const struct storage *storage, const struct stage_place *place,
                            const struct profile *profile, uint32_t first, uint32_t end, struct cost_row *row)
{
    for (size_t i = 0; i < ACTIONS; i++) {
        const struct passing passing = { moving_of(storage, place, end - first), profile, first, end, &actions[i] };
        add(time_in(row, &actions[i]), uncovered_ns(&passing));
    }
}
