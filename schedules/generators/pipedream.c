// PipeDream: 1F1B without a flush. Every backward is followed by an update, so the weights of a stage change while
// micro-batches are between their forward and their backward. Each micro-batch keeps the version with which it began
// (weights: stash).
//
//     rank 0   F0 F1 F2 B0 STEP0 F3 B1 STEP1 F4 B2 STEP2 B3 STEP3 B4 STEP4      p = 3, a run of
//     rank 1   F0 F1 B0 STEP0 F2 B1 STEP1 F3 B2 STEP2 F4 B3 STEP3 B4 STEP4      5 micro-batches
//     rank 2   F0 B0 STEP0 F1 B1 STEP1 F2 B2 STEP2 F3 B3 STEP3 F4 B4 STEP4
//
// Rank s has p - s micro-batches in flight, hence p - s versions. The pipeline drains once, at the end of the run.
//
// A stage may have several ranks (1F1B-RR). They get micro-batches in turns, and update t is made from one
// micro-batch of each:
//
//     replicas 2, 1       stage 0   rank 0   F0 F2 B0 REDUCE0 STEP0 F4 B2 REDUCE1 STEP1 B4 REDUCE2 STEP2
//     5 micro-batches               rank 1   F1 F3 B1 REDUCE0 STEP0    B3 REDUCE1 STEP1    REDUCE2 STEP2
//                         stage 1   rank 2   F0 B0 STEP0 F1 B1 STEP1 F2 B2 STEP2 F3 B3 STEP3 F4 B4 STEP4
//
// On a stage with r ranks, a rank has n / r micro-batches in flight, rounded up, where n is the number of ranks from
// its stage on.
//
// With vertical sync (weights: vertical) the order is the same, but every stage uses for a micro-batch the version
// that it used at stage 0. This takes p versions on every rank.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, const struct replicas *replicas, uint32_t number, struct error *error)
{
    const uint32_t m = schedule->micro_batches, rank = replicas->first + number, r = replicas->count;
    const uint32_t share = replicas_share(replicas, number, m), ahead = min_u32(replicas->ahead, share);
    const uint32_t updates = (m + r - 1) / r;
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = replicas_add(schedule, replicas, number, ACTION_F, i, error);
    for (uint32_t i = 0; good && i < updates; i++) {
        good = (i >= share || replicas_add(schedule, replicas, number, ACTION_B, i, error))
            && (r == 1 || generate_add(schedule, rank, ACTION_REDUCE, replicas->stage, i, error))
            && generate_add(schedule, rank, ACTION_STEP, replicas->stage, i, error)
            && (i + ahead >= share || replicas_add(schedule, replicas, number, ACTION_F, i + ahead, error));
    }
    return good;
}

struct schedule *generate_pipedream(const struct generate_request *request, struct error *error)
{
    return generate_replicas("pipedream", WEIGHTS_STASH, request, add_rank, error);
}

struct schedule *generate_vertical(const struct generate_request *request, struct error *error)
{
    return generate_replicas("vertical", WEIGHTS_VERTICAL, request, add_rank, error);
}
