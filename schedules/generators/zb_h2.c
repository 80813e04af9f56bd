// ZB-H2: ZB-H1 with twice as many forwards ahead, so that no rank waits between its first action and its last.
//
//     rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 STEP         p = 3, m = 6,
//     rank 1   ·  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 STEP      F, I, W equally long
//     rank 2   ·  ·  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5 STEP
//
// Rank r keeps 2 (p - r) - 1 micro-batches, and what W needs of 2r of them. The bubble disappears only if rank r
// begins its next iteration r forwards after rank 0, without waiting for the step of the others. Each rank therefore
// steps on its own, and a VALIDATE before its next I0 checks that step.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const struct split_order order = { .ahead = 2 * (schedule->ranks - rank) - 1, .lag = 2 * rank, .validates = true };
    return generate_add_split_rank(schedule, rank, order, error);
}

struct schedule *generate_zb_h2(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_one_stage_per_rank("zb-h2", WEIGHTS_FLUSH, request, error), add_rank, error);
}
