// Interleaved 1F1B (Megatron's order): a rank holds v stages that are p apart, and micro-batches pass through them
// in rounds of p. The pipeline fills with stages that are v times smaller. The bubble is therefore v times smaller,
// at the cost of v times as many messages.
//
//     rank 0   0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3 0STEP 2STEP      p = 2, v = 2,
//     rank 1   1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3 1STEP 3STEP      m = 4
//
//     number   0   1   2   3   4   5   6   7       of rank 0's forwards: stage 0 in the first half
//     stage    0   0   2   2   0   0   2   2       of each round, stage 2 in the second
//
// Rank r runs (v - 1) rounds and 2 (p - 1 - r) forwards ahead. If p does not divide m, rounds are larger. A round
// must not be smaller than p, since its micro-batches would then wait for their way around the ranks.
#include "schedules/generators/generators.h"

// The smallest size from p on for which the last round is empty or not smaller than p. With it, rounds exist for
// every m from p on. Fewer micro-batches than ranks are one round.
struct rounds rounds_of(uint32_t ranks, uint32_t micro_batches)
{
    uint32_t size = min_u32(ranks, micro_batches);
    while (micro_batches % size != 0 && micro_batches % size < ranks)
        size++;
    return (struct rounds){ .size = size, .remainder = micro_batches % size };
}

// Adds the action that is number `k` of its kind on the rank. Backwards pass through the stages in the opposite order.
static bool add(struct schedule *schedule, uint32_t rank, const struct rounds *rounds, enum action_kind kind,
                uint32_t k, struct error *error)
{
    const uint32_t chunks = schedule->stages / schedule->ranks;
    const uint32_t round = k / (rounds->size * chunks), within = k % (rounds->size * chunks);
    const bool is_last = round == schedule->micro_batches / rounds->size;
    const uint32_t size = is_last ? rounds->remainder : rounds->size;
    const uint32_t chunk = kind == ACTION_F ? within / size : chunks - 1 - within / size;
    return generate_add(schedule, rank, kind, chunk * schedule->ranks + rank, round * rounds->size + within % size,
                        error);
}

bool rounds_add_rank(struct schedule *schedule, uint32_t rank, uint32_t fill, bool splits_backward,
                     struct error *error)
{
    const struct rounds rounds = rounds_of(schedule->ranks, schedule->micro_batches);
    const uint32_t chunks = schedule->stages / schedule->ranks, all = schedule->micro_batches * chunks;
    const uint32_t ahead = min_u32((chunks - 1) * rounds.size + fill, all);
    const uint32_t lag = splits_backward ? min_u32(rank, all) : 0;
    const enum action_kind backward = splits_backward ? ACTION_I : ACTION_B;
    bool good = true;
    for (uint32_t k = 0; good && k < all + ahead + lag; k++) {
        if (k < all)
            good = add(schedule, rank, &rounds, ACTION_F, k, error);
        if (good && k >= ahead && k - ahead < all)
            good = add(schedule, rank, &rounds, backward, k - ahead, error);
        if (good && splits_backward && k >= ahead + lag)
            good = add(schedule, rank, &rounds, ACTION_W, k - ahead - lag, error);
    }
    return good;
}

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    return rounds_add_rank(schedule, rank, 2 * (schedule->ranks - 1 - rank), false, error);
}

// Each stage of a rank except its last has a round of all ranks in flight.
struct generator_flight interleaved_flight(const struct generate_request *request, uint32_t rank)
{
    const uint32_t p = request->ranks, behind = p - rank;
    if (request->chunks < 2)
        return (struct generator_flight){ 1, 1, 0 };
    return (struct generator_flight){ min_u32(2 * behind - 1, p), p, request->chunks - 1 };
}

struct schedule *generate_interleaved(const struct generate_request *request, struct error *error)
{
    return generate_ranks(generate_looped("interleaved", request, "1f1b", error), add_rank, error);
}
