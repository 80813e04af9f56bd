// PipeDream: 1F1B without a flush. Every backward is followed by an update, so
// the weights of a stage change while micro-batches are between their forward
// and their backward; each keeps the version it began with (weights: stash).
//
//     rank 0   F0 F1 F2 B0 STEP0 F3 B1 STEP1 F4 B2 STEP2 B3 STEP3 B4 STEP4      p = 3, a run of
//     rank 1   F0 F1 B0 STEP0 F2 B1 STEP1 F3 B2 STEP2 F4 B3 STEP3 B4 STEP4      5 micro-batches
//     rank 2   F0 B0 STEP0 F1 B1 STEP1 F2 B2 STEP2 F3 B3 STEP3 F4 B4 STEP4
//
// Rank s has p - s micro-batches in flight, hence p - s versions. The pipeline
// drains once, at the end of the run.
#include "schedules/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t m = schedule->micro_batches;
    const uint32_t ahead = schedule->ranks - rank < m ? schedule->ranks - rank : m;
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = generate_add(schedule, rank, ACTION_F, rank, i, error);
    for (uint32_t i = 0; good && i < m; i++) {
        good = generate_add(schedule, rank, ACTION_B, rank, i, error)
            && generate_add(schedule, rank, ACTION_STEP, rank, i, error)
            && (i + ahead >= m || generate_add(schedule, rank, ACTION_F, rank, i + ahead, error));
    }
    return good;
}

struct schedule *generate_pipedream(const struct generate_request *request, struct error *error)
{
    struct schedule *schedule = generate_one_stage_per_rank("pipedream", WEIGHTS_STASH, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++)
        good = add_rank(schedule, rank, error);
    return generate_done(schedule, good);
}
