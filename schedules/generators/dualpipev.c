// DualPipeV: two stages per rank, in the shape of a V. A forward of one runs together with a backward of the other,
// so that the messages of each are hidden behind the other's computation.
//
//     (1)   F F ...                         2 (p - 1 - r) forwards of the first stage
//     (2)   F f F f ...                     r + 1 of both in turns
//     (3)   i w f i w f ...                 p - 1 - r backwards of the second, split, and its next forward
//     (4)   (F;b)(f;B)(F;b)(f;B) ...        m - 2p + r + 1 times: both ways at once
//     (5)   b (f;B) b (f;B) ...             p - 1 - r times, without new forwards of the first
//     (6)   b B b B ... i I i I             r + 1 of both; the later half split, so that gradients arrive sooner
//     (7)   w I w I ...                     p - 1 - r of the first, between W's that were left
//     (8)   w w W W                         what is left
//
//     rank 0   F0 F1 F2 f0 i0 w0 f1 (F3;b1) (f2;B0) b2 (f3;B1) b3 I2 W2 I3 W3             p = 2, m = 4; second
//     rank 1   F0 f0 F1 f1 F2 b0 (f2;B0) (F3;b1) (f3;B1) b2 B2 i3 I3 w3 W3                stages in small letters
//
// DualPipe (dualpipe.c) has the same steps, with two copies of the weights instead of two stages.
#include "schedules/generators/generators.h"

struct two_ways {
    struct schedule *schedule;
    uint32_t rank;
    const struct way *ways;            // the first and the second stage
    uint32_t forwards[2], backwards[2];  // how many have been added
    size_t weights;                    // position in the list before which every I has its W
    uint32_t owed;                     // I's without their W so far
};

enum { FIRST, SECOND };

static struct action next_action(struct two_ways *state, enum action_kind kind, int way)
{
    const uint32_t number = kind == ACTION_F ? state->forwards[way]++ : state->backwards[way]++;
    const struct way *through = &state->ways[way];
    state->owed += kind == ACTION_I;
    return (struct action){ .stage = (uint16_t)through->stage, .kind = (uint8_t)kind,
                            .micro_batch = through->micro_batch + number * through->stride };
}

static bool add(struct two_ways *state, enum action_kind kind, int way, struct error *error)
{
    return schedule_add(state->schedule, state->rank, next_action(state, kind, way), error);
}

static bool add_together(struct two_ways *state, int forward, struct error *error)
{
    struct action first = next_action(state, ACTION_F, forward);
    first.joined = 1;
    return schedule_add(state->schedule, state->rank, first, error) && add(state, ACTION_B, !forward, error);
}

// Adds the W of the first I that does not have it yet, if there is one.
static bool add_weights(struct two_ways *state, struct error *error)
{
    if (state->owed == 0)
        return true;
    const struct action *actions = state->schedule->lists[state->rank].at;
    while (actions[state->weights].kind != ACTION_I)
        state->weights++;
    struct action action = actions[state->weights++];
    action.kind = ACTION_W;
    state->owed--;
    return schedule_add(state->schedule, state->rank, action, error);
}

// Steps 1 to 3.
static bool fill(struct two_ways *state, uint32_t place, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * after; i++)
        good = add(state, ACTION_F, FIRST, error);
    for (uint32_t i = 0; good && i <= place; i++)
        good = add(state, ACTION_F, FIRST, error) && add(state, ACTION_F, SECOND, error);
    for (uint32_t i = 0; good && i < after; i++)
        good = add(state, ACTION_I, SECOND, error) && add_weights(state, error) && add(state, ACTION_F, SECOND, error);
    return good;
}

// Steps 4 and 5. On the rank where the V turns, the first backward needs the forward before it, so the two cannot
// run together.
static bool go_on(struct two_ways *state, uint32_t times, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < times; i++) {
        if (i == 0 && after == 0)
            good = add(state, ACTION_F, FIRST, error) && add(state, ACTION_B, SECOND, error);
        else
            good = add_together(state, FIRST, error);
        good = good && add_together(state, SECOND, error);
    }
    for (uint32_t i = 0; good && i < after; i++)
        good = add(state, ACTION_B, SECOND, error) && add_together(state, SECOND, error);
    return good;
}

// Steps 6 to 8. The r + 1 pairs of step 6 are split from their middle on. If the middle is within a pair, the split
// begins with the second half of that pair.
static bool drain(struct two_ways *state, uint32_t place, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * (place + 1); i++)
        good = add(state, i <= place ? ACTION_B : ACTION_I, i % 2 == 0 ? SECOND : FIRST, error);
    for (uint32_t i = 0; good && i < after; i++)
        good = add_weights(state, error) && add(state, ACTION_I, FIRST, error);
    while (good && state->owed > 0)
        good = add_weights(state, error);
    return good;
}

bool generate_add_two_ways(struct schedule *schedule, uint32_t rank, const struct way ways[2], struct dual_place place,
                           struct error *error)
{
    struct two_ways state = { .schedule = schedule, .rank = rank, .ways = ways };
    const uint32_t after = place.ranks - 1 - place.place;
    return fill(&state, place.place, after, error)
        && go_on(&state, place.micro_batches - 2 * place.ranks + place.place + 1, after, error)
        && drain(&state, place.place, after, error);
}

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t p = schedule->ranks;
    const struct way ways[2] = { { .stage = rank, .stride = 1 }, { .stage = 2 * p - 1 - rank, .stride = 1 } };
    const struct dual_place place = { p, rank, schedule->micro_batches };
    return generate_add_two_ways(schedule, rank, ways, place, error);
}

struct schedule *generate_dualpipev(const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks, m = request->micro_batches;
    if (m < 2 * (uint64_t)p)
        return error_null(error_set(error, "dualpipev needs two micro-batches for each rank: %u or more, not %u", 2 * p,
                                    m));
    return generate_ranks(generate_v("dualpipev", request, error), add_rank, error);
}
