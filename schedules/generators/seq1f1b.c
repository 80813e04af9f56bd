// Seq1F1B: 1F1B of parts of sequences. Each micro-batch is cut along its sequence into k splits. These pass through
// the pipeline as micro-batches do in 1F1B: forward in order, since a part attends to those before it, and backward
// in reverse.
//
//     rank 0   F0.0 F0.1 F1.0 ·    B0.1 F1.1 B0.0 F2.0 B1.1 F2.1 B1.0 B2.1 B2.0 STEP      p = 2, m = 3,
//     rank 1   ·    F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 B1.1 F2.0 B1.0 F2.1 B2.1 B2.0 STEP      k = 2
//
// Rank r keeps (p - r + k - 1) / k micro-batches, and all bubbles are those of a pipeline with k times smaller
// stages. Splits should cost the same; with causal attention, splits of equal length do not.
#include "schedules/generators/generators.h"

enum { USUAL_SPLITS = 4 };

static struct action part(uint32_t rank, enum action_kind kind, uint32_t number, uint32_t splits)
{
    const uint32_t split = kind == ACTION_F ? number % splits : splits - 1 - number % splits;
    return (struct action){ .stage = (uint16_t)rank, .kind = (uint8_t)kind, .split = split & 0x7f,
                            .micro_batch = number / splits };
}

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t k = schedule->splits, all = schedule->micro_batches * k;
    const uint32_t ahead = min_u32(schedule->ranks - rank + k - 1, all);
    bool good = true;
    for (uint32_t n = 0; good && n < all + ahead; n++) {
        if (n >= ahead)
            good = schedule_add(schedule, rank, part(rank, ACTION_B, n - ahead, k), error);
        if (good && n < all)
            good = schedule_add(schedule, rank, part(rank, ACTION_F, n, k), error);
    }
    return good;
}

struct schedule *generate_seq1f1b(const struct generate_request *request, struct error *error)
{
    const uint32_t splits = request->splits ? request->splits : USUAL_SPLITS;
    if (splits > MOST_SPLITS)
        return error_null(error_set(error, "seq1f1b cuts a sequence into at most %d splits, not %u", MOST_SPLITS,
                                    splits));
    struct schedule *schedule = generate_one_stage_per_rank("seq1f1b", WEIGHTS_FLUSH, request, error);
    if (schedule && !schedule_split(schedule, splits, error))
        return generate_done(schedule, false);
    return generate_ranks(schedule, add_rank, error);
}
