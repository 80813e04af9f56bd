// Hanayo: w waves over the ranks. Each wave has two stages of each rank, one on the way down and one on the way
// back.
//
//     stage    0 1 2 3        p = 4, one wave         stage    0 1 2 3        two waves
//     stage    7 6 5 4                                stage    7 6 5 4
//     rank     0 1 2 3                                stage    8 9 ...
//
//     rank 0   F0 F1 F2 f0 b0 b0 f1 b1 b1 ·  ·  B0 B0 f2 b2 b2 B1 B1 ·  ·  B2 B2      p = 2, m = 3; the way
//     rank 1   ·  F0 f0 F1 f1 ·  b0 b0 F2 B0 B0 f2 b1 b1 B1 B1 b2 b2 B2 B2            back in small letters
//
// The bubbles are those of two pipelines in opposite directions (Chimera), without two copies of the weights. The
// order is made greedily (greedy.h): forwards before backwards, and earlier micro-batches before later ones. A rank
// never keeps more than the first rank of 1F1B. With two or more waves that would admit too few micro-batches to
// fill the turns, so the limit is one more for each rank.
#include "schedules/generators/generators.h"

struct schedule *generate_hanayo(const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks, chunks = request->chunks;
    if (chunks % 2 != 0) {
        error_set(error, "hanayo has two stages per rank and wave: chunks must be even, such as %u, not %u",
                  chunks + 1, chunks);
        return NULL;
    }
    struct schedule *schedule = generate_looped("hanayo", request, "1f1b", error);
    for (uint32_t stage = 0; schedule && stage < schedule->stages; stage++)
        schedule->routes[stage] = stage / p % 2 == 0 ? stage % p : p - 1 - stage % p;
    return generate_in_turns(schedule, chunks == 2 ? 2 * p : (chunks + 1) * p, error);
}
