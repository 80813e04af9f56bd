// V-Min: like V-Half, with the least memory possible for a V, a third of 1F1B's first rank, and larger bubbles. In
// its pattern every micro-batch goes from rank to rank without waiting:
//
//     p = 4    F of the first stage   F of the second   I of the second   I of the first
//     rank 0           0                     7                 8                15
//     rank 1           1                     6                 9                14
//     rank 2           2                     5                10                13
//     rank 3           3                     4                11                12
#include "schedules/generators/generators.h"

// If 3 divides p, two slots are added at the turn, so that no two actions of a rank are in the same slot.
static void v_min(uint32_t p, struct v_turn *turns)
{
    const uint32_t gap = p % 3 == 0 ? 2 : 0;
    for (uint32_t r = 0; r < p; r++) {
        turns[r] = (struct v_turn){ r, 4 * p + gap - r - 1 };
        turns[2 * p - 1 - r] = (struct v_turn){ 2 * p - r - 1, 2 * p + gap + r };
    }
}

struct schedule *generate_v_min(const struct generate_request *request, struct error *error)
{
    return generate_v_pattern("v-min", request, v_min, 2 * ((request->ranks + 4) / 3), error);
}
