// PipeDream-2BW: 1F1B without a flush, with an update after every p backwards instead of after each. The gradient of
// a batch of p micro-batches is computed with the weights before the last update. Two versions are therefore enough
// for every rank (weights: 2bw).
//
//     rank 0   F0 F1 F2 B0 F3 B1 F4 B2 STEP0 F5 B3 F6 B4 B5 STEP1 B6 STEP2      p = 3, a run of
//     rank 1   F0 F1 B0 F2 B1 F3 B2 STEP0 F4 B3 F5 B4 F6 B5 STEP1 B6 STEP2      7 micro-batches
//     rank 2   F0 B0 F1 B1 F2 B2 STEP0 F3 B3 F4 B4 F5 B5 STEP1 F6 B6 STEP2
//
// A batch of p is the smallest that works: F3 of rank 0 comes before STEP0 and uses version 0, as all of its batch
// does. At the end of the run the last batch may be smaller.
//
// A stage may have several ranks. The batch then has as many micro-batches as any stage has in flight. The ranks of
// each stage get them in turns, and add up their gradients before each update. At the end of the run a rank may have
// none of a batch:
//
//     replicas 2, 1       stage 0   rank 0   F0 F2 B0 F4 B2 REDUCE0 STEP0 B4 REDUCE1 STEP1      batches of 4,
//     5 micro-batches               rank 1   F1 F3 B1 B3 REDUCE0 STEP0 REDUCE1 STEP1            the last of 1
//                         stage 1   rank 2   F0 B0 F1 B1 F2 B2 F3 B3 STEP0 F4 B4 STEP1
#include "schedules/generators/generators.h"

static bool add_update(struct schedule *schedule, const struct replicas *replicas, uint32_t number, uint32_t update,
                       struct error *error)
{
    const uint32_t rank = replicas->first + number;
    return (replicas->count == 1 || generate_add(schedule, rank, ACTION_REDUCE, replicas->stage, update, error))
        && generate_add(schedule, rank, ACTION_STEP, replicas->stage, update, error);
}

static bool add_rank(struct schedule *schedule, const struct replicas *replicas, uint32_t number, struct error *error)
{
    const uint32_t m = schedule->micro_batches, batch = replicas->most_in_flight;
    const uint32_t share = replicas_share(replicas, number, m), ahead = min_u32(replicas->ahead, share);
    const uint32_t updates = (m + batch - 1) / batch;
    uint32_t update = 0;
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = replicas_add(schedule, replicas, number, ACTION_F, i, error);
    for (uint32_t i = 0; good && i < share; i++) {
        const uint64_t next = (uint64_t)(i + 1) * replicas->count + number;
        good = replicas_add(schedule, replicas, number, ACTION_B, i, error);
        for (; good && update < updates && next >= (uint64_t)(update + 1) * batch; update++)
            good = add_update(schedule, replicas, number, update, error);
        good = good && (i + ahead >= share || replicas_add(schedule, replicas, number, ACTION_F, i + ahead, error));
    }
    for (; good && update < updates; update++)
        good = add_update(schedule, replicas, number, update, error);
    return good;
}

struct schedule *generate_pipedream_2bw(const struct generate_request *request, struct error *error)
{
    return generate_replicas("pipedream-2bw", WEIGHTS_2BW, request, add_rank, error);
}
