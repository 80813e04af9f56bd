// ZB-H1: 1F1B with split backwards. I, for which the rank before waits, comes where B came. W, for which no rank
// waits, fills the bubbles after it: on rank r it comes r backwards later.
//
//     rank 0   F0 F1 F2 ·  ·  I0 W0 F3 I1 W1 I2 W2 I3 W3 STEP      p = 3, m = 4,
//     rank 1   ·  F0 F1 ·  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 STEP      F, I, W equally long
//     rank 2   ·  ·  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 STEP
//
// Rank r keeps p - r micro-batches, as in 1F1B, and what W needs of r of them.
#include "schedules/generators/generators.h"

bool generate_add_split_rank(struct schedule *schedule, uint32_t rank, struct split_order order, struct error *error)
{
    const uint32_t m = schedule->micro_batches, ahead = min_u32(order.ahead, m), lag = min_u32(order.lag, m);
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    if (good && order.validates)
        good = generate_add(schedule, rank, ACTION_VALIDATE, rank, NO_MICRO_BATCH, error);
    for (uint32_t i = 0; good && i < m + lag; i++) {
        good = (i >= m || generate_add(schedule, rank, ACTION_I, rank, i, error))
            && (i < lag || generate_add(schedule, rank, ACTION_W, rank, i - lag, error))
            && (i + ahead >= m || generate_add(schedule, rank, ACTION_F, rank, i + ahead, error));
    }
    return good;
}

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const struct split_order order = { .ahead = schedule->ranks - rank, .lag = rank };
    return generate_add_split_rank(schedule, rank, order, error);
}

struct schedule *generate_zb_h1(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_one_stage_per_rank("zb-h1", WEIGHTS_FLUSH, request, error), add_rank, error);
}
