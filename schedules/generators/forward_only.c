// Inference: forwards, one after the other, and nothing kept for a backward.
//
//     rank 0   F0 F1 F2 F3      p = 3, m = 4
//     rank 1   ·  F0 F1 F2 F3
//     rank 2   ·  ·  F0 F1 F2 F3
#include "schedules/generators/generators.h"

struct schedule *generate_forward_only(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_one_stage_per_rank("forward-only", WEIGHTS_FLUSH, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++) {
        for (uint32_t i = 0; good && i < request->micro_batches; i++)
            good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    }
    return generate_done(schedule, good);
}
