// ZB-V: two stages per rank, in the shape of a V, with the memory of 1F1B on every rank. If F, I and W take equally
// long, no rank waits between its first action and its last.
//
//     rank 0   F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 W0 f2 i2 w2 I1 W1 f3 i3 w3 I2 W2 I3 W3      p = 2, m = 4; second
//     rank 1   ·  F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 F3 I1 W1 f3 i2 w2 I2 i3 I3 W2 w3 W3    stages in small letters
//
// The order is made for a full pipeline of 2p - 1 micro-batches or more. For fewer, the actions of the missing ones
// are left out.
#include "schedules/generators/generators.h"

struct v_rank {
    struct schedule *schedule;
    uint32_t rank;
    uint32_t planned;  // number of micro-batches in the full order, at least as many as there are
    uint32_t stages[2];
    uint32_t forwards[2], inputs[2], weights[2];  // how many have been added
};

enum { DOWN, UP };  // the two stages

static bool add(struct v_rank *state, enum action_kind kind, int way, struct error *error)
{
    uint32_t *count = kind == ACTION_F ? state->forwards : kind == ACTION_I ? state->inputs : state->weights;
    const uint32_t number = count[way]++;
    if (number >= state->schedule->micro_batches)
        return true;
    if (kind == ACTION_I && number == 0
        && !generate_add(state->schedule, state->rank, ACTION_VALIDATE, state->stages[way], NO_MICRO_BATCH, error))
        return false;
    return generate_add(state->schedule, state->rank, kind, state->stages[way], number, error);
}

static bool add_backward(struct v_rank *state, int way, struct error *error)
{
    return add(state, ACTION_I, way, error) && add(state, ACTION_W, way, error);
}

// Fills the pipeline until the first gradient has reached rank 0's first stage.
static bool fill(struct v_rank *state, struct error *error)
{
    const uint32_t left = state->schedule->ranks - state->rank;
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * left - 1; i++)
        good = add(state, ACTION_F, DOWN, error);
    for (uint32_t i = 0; good && i < state->rank; i++)
        good = add(state, ACTION_F, UP, error) && add(state, ACTION_F, DOWN, error);
    for (uint32_t i = 0; good && i < left; i++)
        good = add(state, ACTION_F, UP, error) && add_backward(state, UP, error);
    return good;
}

static bool go_on(struct v_rank *state, struct error *error)
{
    bool good = true;
    while (good && state->forwards[UP] < state->planned) {
        if (state->forwards[DOWN] < state->planned)
            good = add(state, ACTION_F, DOWN, error);
        good = good && add_backward(state, DOWN, error) && add(state, ACTION_F, UP, error)
            && add_backward(state, UP, error);
    }
    return good;
}

// The last gradients go to the ranks that wait for them as early as possible. The W's that were left fill the end.
static bool drain(struct v_rank *state, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < state->rank; i++)
        good = add(state, ACTION_I, DOWN, error) && add(state, ACTION_I, UP, error);
    for (uint32_t i = state->rank; good && i < state->schedule->ranks; i++)
        good = add_backward(state, DOWN, error);
    for (int way = UP; way >= DOWN; way--) {
        while (good && state->weights[way] < state->inputs[way])
            good = add(state, ACTION_W, way, error);
    }
    return good;
}

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t p = schedule->ranks, full = 2 * p - 1;
    struct v_rank state = { .schedule = schedule, .rank = rank, .stages = { rank, 2 * p - 1 - rank },
                            .planned = schedule->micro_batches > full ? schedule->micro_batches : full };
    return fill(&state, error) && go_on(&state, error) && drain(&state, error);
}

// One stage on the way down the ranks, one on the way up.
struct generator_flight zb_v_flight(const struct generate_request *request, uint32_t rank)
{
    const uint32_t m = request->micro_batches, p = request->ranks;
    return (struct generator_flight){ min_u32(m, rank + 1), min_u32(m, 2 * p - rank), 1 };
}

struct schedule *generate_zb_v(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_v("zb-v", request, error), add_rank, error);
}
