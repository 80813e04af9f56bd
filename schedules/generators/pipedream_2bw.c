// PipeDream-2BW: 1F1B without a flush, with an update after every p backwards
// instead of after each. The gradient of a batch of p micro-batches is made with
// the weights before the last update, so that two versions are enough for every
// rank (weights: 2bw).
//
//     rank 0   F0 F1 F2 B0 F3 B1 F4 B2 STEP0 F5 B3 F6 B4 B5 STEP1 B6 STEP2      p = 3, a run of
//     rank 1   F0 F1 B0 F2 B1 F3 B2 STEP0 F4 B3 F5 B4 F6 B5 STEP1 B6 STEP2      7 micro-batches
//     rank 2   F0 B0 F1 B1 F2 B2 STEP0 F3 B3 F4 B4 F5 B5 STEP1 F6 B6 STEP2
//
// A batch of p is the least that works: F3 of rank 0 comes before STEP0 and meets
// version 0, as all of its batch does. Where the run ends, the last batch is smaller.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t m = schedule->micro_batches, p = schedule->ranks;
    const uint32_t ahead = min_u32(p - rank, m);
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    for (uint32_t i = 0; good && i < m; i++) {
        const bool ends_batch = i % p == p - 1 || i == m - 1;
        good = generate_add(schedule, rank, ACTION_B, rank, i, error)
            && (!ends_batch || generate_add(schedule, rank, ACTION_STEP, rank, i / p, error))
            && (i + ahead >= m || generate_add(schedule, rank, ACTION_F, rank, i + ahead, error));
    }
    return good;
}

struct schedule *generate_pipedream_2bw(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_one_stage_per_rank("pipedream-2bw", WEIGHTS_2BW, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++)
        good = add_rank(schedule, rank, error);
    return generate_done(schedule, good);
}
