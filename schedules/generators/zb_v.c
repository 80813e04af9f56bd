// ZB-V: two stages per rank, on a V, in 1F1B's memory on every rank, and no rank
// waits between its first action and its last if F, I and W take equally long.
//
//     rank 0   F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 W0 f2 i2 w2 I1 W1 f3 i3 w3 I2 W2 I3 W3      p = 2, m = 4; second
//     rank 1   ·  F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 F3 I1 W1 f3 i2 w2 I2 i3 I3 W2 w3 W3    stages in small letters
//
// The order is one for a full pipeline of 2p - 1 micro-batches or more. Fewer are
// what is left of it without the others.
#include "schedules/generators/generators.h"

struct v_rank {
    struct schedule *schedule;
    uint32_t rank;
    uint32_t planned;  // micro-batches, at least as many as there are
    uint32_t stages[2];
    uint32_t forwards[2], inputs[2], weights[2];  // how many have come
};

enum { DOWN, UP };  // the two stages

static bool add(struct v_rank *at, enum action_kind kind, int way, struct error *error)
{
    uint32_t *count = kind == ACTION_F ? at->forwards : kind == ACTION_I ? at->inputs : at->weights;
    const uint32_t number = count[way]++;
    if (number >= at->schedule->micro_batches)
        return true;
    if (kind == ACTION_I && number == 0
        && !generate_add(at->schedule, at->rank, ACTION_VALIDATE, at->stages[way], NO_MICRO_BATCH, error))
        return false;
    return generate_add(at->schedule, at->rank, kind, at->stages[way], number, error);
}

static bool add_backward(struct v_rank *at, int way, struct error *error)
{
    return add(at, ACTION_I, way, error) && add(at, ACTION_W, way, error);
}

// Until the first gradient has come down to rank 0's first stage.
static bool fill(struct v_rank *at, struct error *error)
{
    const uint32_t left = at->schedule->ranks - at->rank;
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * left - 1; i++)
        good = add(at, ACTION_F, DOWN, error);
    for (uint32_t i = 0; good && i < at->rank; i++)
        good = add(at, ACTION_F, UP, error) && add(at, ACTION_F, DOWN, error);
    for (uint32_t i = 0; good && i < left; i++)
        good = add(at, ACTION_F, UP, error) && add_backward(at, UP, error);
    return good;
}

static bool go_on(struct v_rank *at, struct error *error)
{
    bool good = true;
    while (good && at->forwards[UP] < at->planned) {
        if (at->forwards[DOWN] < at->planned)
            good = add(at, ACTION_F, DOWN, error);
        good = good && add_backward(at, DOWN, error) && add(at, ACTION_F, UP, error) && add_backward(at, UP, error);
    }
    return good;
}

// The last gradients hurry to the ranks that wait for them; the W's that stayed behind fill the end.
static bool drain(struct v_rank *at, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < at->rank; i++)
        good = add(at, ACTION_I, DOWN, error) && add(at, ACTION_I, UP, error);
    for (uint32_t i = at->rank; good && i < at->schedule->ranks; i++)
        good = add_backward(at, DOWN, error);
    for (int way = UP; way >= DOWN; way--) {
        while (good && at->weights[way] < at->inputs[way])
            good = add(at, ACTION_W, way, error);
    }
    return good;
}

struct schedule *generate_zb_v(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_v("zb-v", request, error);
    const uint32_t p = request->ranks, full = 2 * p - 1;
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < p; rank++) {
        struct v_rank at = { .schedule = schedule, .rank = rank, .stages = { rank, 2 * p - 1 - rank },
                             .planned = request->micro_batches > full ? request->micro_batches : full };
        good = fill(&at, error) && go_on(&at, error) && drain(&at, error) && generate_add_steps(schedule, rank, error);
    }
    return generate_done(schedule, good);
}
