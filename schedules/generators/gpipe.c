// GPipe: all forwards, then all backwards, then one step.
//
//     rank 0   F0 F1 F2 F3 ·  ·  ·  ·  B0 B0 B1 B1 B2 B2 B3 B3 STEP      p = 3, m = 4,
//     rank 1   ·  F0 F1 F2 F3 ·  ·  B0 B0 B1 B1 B2 B2 B3 B3 STEP         B twice as long as F
//     rank 2   ·  ·  F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 STEP
//
// The simplest order, and the hungriest: every rank keeps all m micro-batches.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < schedule->micro_batches; i++)
        good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    for (uint32_t i = 0; good && i < schedule->micro_batches; i++)
        good = generate_add(schedule, rank, ACTION_B, rank, i, error);
    return good && generate_add(schedule, rank, ACTION_STEP, rank, NO_MICRO_BATCH, error);
}

struct schedule *generate_gpipe(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_one_stage_per_rank("gpipe", WEIGHTS_FLUSH, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++)
        good = add_rank(schedule, rank, error);
    return generate_done(schedule, good);
}
