// 1F1B: rank s first runs p - s forwards, then alternates between one backward and one forward. The remaining
// backwards and one step follow.
//
//     rank 0   F0 F1 F2 ·  ·  B0 B0 F3 B1 B1 ·  B2 B2 ·  B3 B3 STEP      p = 3, m = 4,
//     rank 1   ·  F0 F1 B0 B0 F2 B1 B1 F3 B2 B2 B3 B3 STEP               roughly drawn
//     rank 2   ·  ·  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 STEP
//
// It takes as long as GPipe, but rank s keeps at most p - s micro-batches. With fewer micro-batches than ranks the
// middle phase is empty.
//
// A stage may have several ranks (data parallelism within the stage). They get micro-batches in turns, and add up
// their gradients before the step:
//
//     replicas 2, 1       stage 0   rank 0   F0 F2 B0 B2 REDUCE STEP
//     4 micro-batches               rank 1   F1 F3 B1 B3 REDUCE STEP
//                         stage 1   rank 2   F0 B0 F1 B1 F2 B2 F3 B3 STEP
//
// A stage reduces as soon as its own last backward is done, while the stages before it still drain.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, const struct replicas *replicas, uint32_t number, struct error *error)
{
    const uint32_t share = replicas_share(replicas, number, schedule->micro_batches);
    const uint32_t ahead = min_u32(replicas->ahead, share);
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = replicas_add(schedule, replicas, number, ACTION_F, i, error);
    for (uint32_t i = 0; good && i < share; i++) {
        good = replicas_add(schedule, replicas, number, ACTION_B, i, error)
            && (i + ahead >= share || replicas_add(schedule, replicas, number, ACTION_F, i + ahead, error));
    }
    return good && replicas_add_step(schedule, replicas, number, error);
}

struct generator_flight one_way_flight(const struct generate_request *request, uint32_t rank)
{
    return (struct generator_flight){ min_u32(request->micro_batches, request->ranks - rank), 0, 0 };
}

struct schedule *generate_1f1b(const struct generate_request *request, struct error *error)
{
    return generate_replicas("1f1b", WEIGHTS_FLUSH, request, add_rank, error);
}
