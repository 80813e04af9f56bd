// 1F1B: rank s runs p - s forwards ahead, then one backward and one forward in
// turns, then the backwards that are left, then one step.
//
//     rank 0   F0 F1 F2 ·  ·  B0 B0 F3 B1 B1 ·  B2 B2 ·  B3 B3 STEP      p = 3, m = 4,
//     rank 1   ·  F0 F1 B0 B0 F2 B1 B1 F3 B2 B2 B3 B3 STEP               roughly drawn
//     rank 2   ·  ·  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 STEP
//
// As long as GPipe, but rank s keeps at most p - s micro-batches. With fewer
// micro-batches than ranks the middle phase is empty.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t m = schedule->micro_batches;
    const uint32_t ahead = schedule->ranks - rank < m ? schedule->ranks - rank : m;
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    for (uint32_t i = 0; good && i < m; i++) {
        good = generate_add(schedule, rank, ACTION_B, rank, i, error)
            && (i + ahead >= m || generate_add(schedule, rank, ACTION_F, rank, i + ahead, error));
    }
    return good && generate_add(schedule, rank, ACTION_STEP, rank, NO_MICRO_BATCH, error);
}

struct schedule *generate_1f1b(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_one_stage_per_rank("1f1b", WEIGHTS_FLUSH, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++)
        good = add_rank(schedule, rank, error);
    return generate_done(schedule, good);
}
