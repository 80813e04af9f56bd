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
#include <stdlib.h>

#include "schedules/generators/generators.h"

static int64_t turn(const void *state, struct action action)
{
    const struct schedule *schedule = state;
    const int64_t stages = schedule->stages, in_order = stages * action.micro_batch + stages - 1 - action.stage;
    return action.kind == ACTION_F ? in_order : in_order + stages * schedule->micro_batches;
}

static void place(struct schedule *schedule)
{
    const uint32_t p = schedule->ranks;
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        schedule->routes[stage] = stage / p % 2 == 0 ? stage % p : p - 1 - stage % p;
}

static struct schedule *create(const struct generate_request *request, struct error *error)
{
    if (request->chunks % 2 != 0) {
        error_set(error, "hanayo has two stages per rank and wave: chunks must be even, such as %u, not %u",
                  request->chunks + 1, request->chunks);
        return NULL;
    }
    struct schedule *schedule = generate_looped("hanayo", request, "1f1b", error);
    if (schedule)
        place(schedule);
    return schedule;
}

static bool add_orders(struct schedule *schedule, struct error *error)
{
    const uint32_t stages = schedule->stages;
    uint32_t *most_ahead = malloc(stages * sizeof *most_ahead);
    if (!most_ahead)
        return error_no_memory(error, "an order");
    for (uint32_t stage = 0; stage < stages; stage++)
        most_ahead[stage] = stages - stage;
    const bool one_wave = stages == 2 * schedule->ranks;
    const struct greedy_rules rules = { .most_kept = one_wave ? stages : stages + schedule->ranks,
                                        .most_ahead = most_ahead, .turn = turn, .state = schedule };
    const bool good = generate_by_rules(schedule, &rules, error);
    free(most_ahead);
    return good;
}

struct schedule *generate_hanayo(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = create(request, error);
    return generate_done(schedule, schedule && add_orders(schedule, error));
}
