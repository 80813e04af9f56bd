// Interleaved 1F1B with split backwards (PyTorch's ZB1P). I comes at once, since the rank before waits for it. W,
// for which no rank waits, comes r backwards later on rank r. Each hop of the backward is shorter in this way. Rank
// r thus needs to run only p - 1 - r forwards ahead of the next, and not twice as many.
//
//     rank 0   0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 ...      p = 2, v = 2
//     rank 1   1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 ...
//
// The rounds are those of the interleaved schedule.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, const struct rounds *rounds, struct error *error)
{
    const uint32_t p = schedule->ranks, chunks = schedule->stages / p;
    const uint32_t all = schedule->micro_batches * chunks, lag = min_u32(rank, all);
    const uint32_t ahead = min_u32((chunks - 1) * rounds->size + p - 1 - rank, all);
    bool good = true;
    for (uint32_t k = 0; good && k < all + ahead + lag; k++) {
        if (k < all)
            good = rounds_add(rounds, schedule, rank, ACTION_F, k, error);
        if (good && k >= ahead && k - ahead < all)
            good = rounds_add(rounds, schedule, rank, ACTION_I, k - ahead, error);
        if (good && k >= ahead + lag)
            good = rounds_add(rounds, schedule, rank, ACTION_W, k - ahead - lag, error);
    }
    return good && generate_add_steps(schedule, rank, error);
}

struct schedule *generate_interleaved_zb(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_looped("interleaved-zb", request, "zb-h1", error);
    const struct rounds rounds = rounds_of(request->ranks, request->micro_batches);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++)
        good = add_rank(schedule, rank, &rounds, error);
    return generate_done(schedule, good);
}
