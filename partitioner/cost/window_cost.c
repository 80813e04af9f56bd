#include "partitioner/cost/window_cost.h"

#include "common/number.h"
#include "partitioner/cost/stage_cost.h"

// An action as the window sees it.
struct action_of_layers {
    bool from_last, has_gradients;
    size_t of_layer, of_row;  // where its time is
};

static const struct action_of_layers actions[] = {
    { false, false, offsetof(struct profile_layer, forward_ns), offsetof(struct cost_row, forward_ns) },
    { true, true, offsetof(struct profile_layer, backward_ns), offsetof(struct cost_row, backward_ns) },
    { true, false, offsetof(struct profile_layer, backward_input_ns), offsetof(struct cost_row, backward_input_ns) },
    { true, true, offsetof(struct profile_layer, backward_weight_ns), offsetof(struct cost_row, backward_weight_ns) },
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

// The layers of a stage in the order of an action.
struct passing {
    const struct holding *holding;
    const struct stage_place *place;
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

static uint64_t gradients_ns(const struct passing *passing, uint32_t step)
{
    const uint64_t gradients = holding_gradient_bytes(passing->holding, weights_at(passing, step));
    return passing->action->has_gradients ? holding_move_ns(passing->place, gradients) : 0;
}

static uint64_t comes_ns(const struct passing *passing, uint32_t step)
{
    return add_clamped(holding_move_ns(passing->place, weights_at(passing, step)), gradients_ns(passing, step));
}

static uint64_t computes_ns(const struct passing *passing, uint32_t step)
{
    const struct profile_layer *layer = &passing->profile->layers[layer_at(passing, step)];
    return stage_scaled_ns(*(const uint64_t *)((const char *)layer + passing->action->of_layer),
                           passing->place->speed_permille);
}

// What is not covered by computing.
static uint64_t beside_ns(const struct passing *passing)
{
    const uint32_t count = passing->end - passing->first;
    uint64_t added = add_clamped(comes_ns(passing, 0), gradients_ns(passing, count - 1));
    for (uint32_t step = 0; step < count; step++) {
        const uint64_t back = step > 0 ? gradients_ns(passing, step - 1) : 0;
        const uint64_t moved = add_clamped(back, step + 1 < count ? comes_ns(passing, step + 1) : 0);
        const uint64_t computed = computes_ns(passing, step);
        add(&added, moved > computed ? moved - computed : 0);
    }
    return added;
}

bool window_is_beside(const struct holding *holding, const struct profile *profile, const struct cost_row *row)
{
    return holding->window >= 2 && profile->is_chain && profile->tied_count == 0 && profile->lent_count == 0
        && row->recompute_ns == 0;
}

void window_add_in_turn(const struct holding *holding, const struct stage_place *place, uint64_t weights,
                        struct cost_row *row)
{
    const uint64_t in = holding_move_ns(place, weights);
    const uint64_t gradients = holding_move_ns(place, holding_gradient_bytes(holding, weights));
    for (size_t i = 0; i < ACTIONS; i++)
        add(time_in(row, &actions[i]), add_clamped(in, actions[i].has_gradients ? multiply_clamped(2, gradients) : 0));
}

void window_add_beside(const struct holding *holding, const struct stage_place *place, const struct profile *profile,
                       uint32_t first, uint32_t end, struct cost_row *row)
{
    for (size_t i = 0; i < ACTIONS; i++) {
        const struct passing passing = { holding, place, profile, first, end, &actions[i] };
        add(time_in(row, &actions[i]), beside_ns(&passing));
    }
}
