// Interleaved 1F1B with split backwards (PyTorch's ZB1P). I comes at once, since the rank before waits for it. W,
// for which no rank waits, comes r backwards later on rank r. Each hop of the backward is shorter in this way. Rank
// r thus needs to run only p - 1 - r forwards ahead of the next, and not twice as many.
//
//     rank 0   0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 ...      p = 2, v = 2
//     rank 1   1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 ...
//
// The rounds are those of the interleaved schedule.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    return rounds_add_rank(schedule, rank, schedule->ranks - 1 - rank, true, error);
}

struct schedule *generate_interleaved_zb(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_looped("interleaved-zb", request, "zb-h1", error), add_rank, error);
}
