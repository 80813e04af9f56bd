// Looped BFS: GPipe with v stages per rank. All micro-batches pass through a rank's first stage, then all through
// its next. Backwards run in the opposite order, both of stages and of micro-batches.
//
//     rank 0   0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0 0STEP 2STEP      p = 2, v = 2, m = 3
//     rank 1   1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0 1STEP 3STEP
//
// It has the bubble of the interleaved schedule and the memory of GPipe. But each stage's weights are needed only in
// two contiguous periods, which suits weights that are gathered from shards before use.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t m = schedule->micro_batches, p = schedule->ranks;
    bool good = true;
    for (uint32_t stage = rank; good && stage < schedule->stages; stage += p) {
        for (uint32_t i = 0; good && i < m; i++)
            good = generate_add(schedule, rank, ACTION_F, stage, i, error);
    }
    for (uint32_t chunk = schedule->stages / p; good && chunk-- > 0;) {
        for (uint32_t i = m; good && i-- > 0;)
            good = generate_add(schedule, rank, ACTION_B, chunk * p + rank, i, error);
    }
    return good;
}

struct schedule *generate_looped_bfs(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_looped("looped-bfs", request, "gpipe", error), add_rank, error);
}
