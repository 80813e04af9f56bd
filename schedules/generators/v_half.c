// V-Half: two stages per rank, in the shape of a V, with half the memory of 1F1B's first rank.
//
//     stage    0 1 2 3        A micro-batch goes down the ranks, turns, and comes back up: the rank
//     stage    7 6 5 4        that keeps its first stage longest keeps its last one shortest, and all
//     rank     0 1 2 3        ranks need the same.
//
// Each micro-batch follows the same pattern, six slots after the one before (two
// F, two I, and room for two W):
//
//     p = 4    F of the first stage   F of the second   I of the second   I of the first
//     rank 0           0                    10                14                25
//     rank 1           2                     9                16                24
//     rank 2           4                     8                18                23
//     rank 3           6                     7                20                22
//
//     rank 0   F0 F1 F2 F3 ·  ·  ·  f0 i0 f1 i1 w0 w1 ·  f2 I0 i2 W0 w2 f3 i3 I1 w3 I2 W1 W2 ·  I3 W3
//     rank 1   ·  F0 F1 F2 F3 ·  f0 ·  f1 i0 w0 i1 w1 f2 I0 W0 ·  i2 f3 w2 I1 i3 I2 W1 w3 W2 I3 W3
//     rank 2   ·  ·  F0 F1 F2 f0 F3 f1 ·  ·  i0 w0 f2 I0 i1 W0 w1 f3 i2 I1 w2 I2 i3 W1 W2 I3 w3 W3
//     rank 3   ·  ·  ·  F0 f0 F1 f1 F2 f2 ·  ·  i0 I0 w0 F3 W0 f3 i1 I1 i2 I2 w1 W1 i3 I3 w2 W2 w3 W3
//
// (This is from the paper on pipelines with controllable memory. The distance between neighbours is 2, 1, 2, 1.
// Second stages are in small letters.)
//
// The pattern determines the turns, and how many micro-batches each stage may be ahead. Actions that can run earlier
// than in the pattern, when the pipeline fills and drains, do so (greedy.h).
#include <stdlib.h>

#include "schedules/generators/generators.h"

enum { PERIOD = 6 };

static int64_t pattern_turn(const void *state, struct action action)
{
    const struct v_turn *turns = state, *turn = &turns[action.stage];
    return (action.kind == ACTION_F ? turn->forward : turn->backward) + (int64_t)PERIOD * action.micro_batch;
}

// The number that the pattern has between an F and its I.
static uint32_t pattern_ahead(const void *state, uint32_t stage)
{
    const struct v_turn *turns = state, *turn = &turns[stage];
    return (turn->backward - turn->forward + PERIOD - 1) / PERIOD;
}

struct schedule *generate_v_pattern(const char *name, const struct generate_request *request, v_pattern pattern,
                                    uint32_t most_kept, struct error *error)
{
    struct schedule *schedule = generate_v(name, request, error);
    if (!schedule)
        return NULL;
    struct v_turn *turns = calloc(schedule->stages, sizeof *turns);
    const struct greedy_rules rules = { .splits_backward = true, .most_kept = most_kept, .most_ahead = pattern_ahead,
                                        .turn = pattern_turn, .state = turns };
    if (turns)
        pattern(request->ranks, turns);
    const bool good = turns ? generate_by_rules(schedule, &rules, error) : error_no_memory(error, "an order");
    free(turns);
    return generate_done(schedule, good);
}

// If p is even, three slots are added at the turn, so that no two actions of a rank are in the same slot.
static void v_half(uint32_t p, struct v_turn *turns)
{
    const uint32_t gap = p % 2 == 0 ? 3 : 0;
    for (uint32_t r = 0; r < p; r++) {
        turns[r] = (struct v_turn){ 2 * r, 6 * p + gap - r - 2 };
        turns[2 * p - 1 - r] = (struct v_turn){ 3 * p - r - 2, 3 * p + gap + 2 * r - 1 };
    }
}

struct schedule *generate_v_half(const struct generate_request *request, struct error *error)
{
    return generate_v_pattern("v-half", request, v_half, 2 * ((request->ranks + 2) / 2), error);
}
