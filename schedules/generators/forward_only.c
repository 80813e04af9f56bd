// Inference: forwards one after the other. Nothing is kept for a backward.
//
//     rank 0   F0 F1 F2 F3      p = 3, m = 4
//     rank 1   ·  F0 F1 F2 F3
//     rank 2   ·  ·  F0 F1 F2 F3
//
// A stage may have several ranks, which get micro-batches in turns.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, const struct replicas *replicas, uint32_t number, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < replicas_share(replicas, number, schedule->micro_batches); i++)
        good = replicas_add(schedule, replicas, number, ACTION_F, i, error);
    return good;
}

struct schedule *generate_forward_only(const struct generate_request *request, struct error *error)
{
    return generate_replicas("forward-only", WEIGHTS_FLUSH, request, add_rank, error);
}
