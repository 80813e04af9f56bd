// GPipe: all forwards, then all backwards, then one step.
//
//     rank 0   F0 F1 F2 F3 ·  ·  ·  ·  B0 B0 B1 B1 B2 B2 B3 B3 STEP      p = 3, m = 4,
//     rank 1   ·  F0 F1 F2 F3 ·  ·  B0 B0 B1 B1 B2 B2 B3 B3 STEP         B twice as long as F
//     rank 2   ·  ·  F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 STEP
//
// This is the simplest order, and takes most memory: every rank keeps all m micro-batches. A stage may have several
// ranks, as in 1f1b.c.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, const struct replicas *replicas, uint32_t number, struct error *error)
{
    const uint32_t share = replicas_share(replicas, number, schedule->micro_batches);
    bool good = true;
    for (uint32_t i = 0; good && i < share; i++)
        good = replicas_add(schedule, replicas, number, ACTION_F, i, error);
    for (uint32_t i = 0; good && i < share; i++)
        good = replicas_add(schedule, replicas, number, ACTION_B, i, error);
    return good && replicas_add_step(schedule, replicas, number, error);
}

struct generator_flight gpipe_flight(const struct generate_request *request, uint32_t rank)
{
    (void)rank;
    return (struct generator_flight){ request->micro_batches, request->micro_batches, 0 };
}

struct schedule *generate_gpipe(const struct generate_request *request, struct error *error)
{
    return generate_replicas("gpipe", WEIGHTS_FLUSH, request, add_rank, error);
}
