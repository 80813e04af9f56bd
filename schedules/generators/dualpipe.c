// DualPipe: two pipelines that run in opposite directions, as in Chimera. A forward of one runs together with a
// backward of the other.
//
//     down     0 1 2 3       Even micro-batches go down the ranks, odd ones up. Where both pipelines
//     up       3 2 1 0       meet they turn back as DualPipeV does; rank r and rank p - 1 - r do the
//     rank     0 1 2 3       same with the two pipelines exchanged.
//
//     rank 0   F0 f1 F2 b1 (f3;B0) b3 I2 W2      p = 2, m = 4; stages of the second half of their
//     rank 1   F1 f0 F3 b0 (f2;B1) b2 I3 W3      pipeline in small letters
//
// The steps of each rank are those of DualPipeV (dualpipev.c) for p/2 ranks and m/2 micro-batches in each direction.
// Its first stage is the one nearer to the beginning of its pipeline. Each stage exists twice: REDUCE adds the
// gradients of both copies.
#include "schedules/generators/generators.h"

static bool add_rank(struct schedule *schedule, uint32_t rank, struct error *error)
{
    const uint32_t p = schedule->ranks, place = min_u32(rank, p - 1 - rank), near_route = rank == place ? 0 : 1;
    const struct way ways[2] = { { .stage = place, .micro_batch = near_route, .stride = 2 },
                                 { .stage = p - 1 - place, .micro_batch = 1 - near_route, .stride = 2 } };
    const struct dual_place in_stream = { p / 2, place, schedule->micro_batches / 2 };
    return generate_add_two_ways(schedule, rank, ways, in_stream, error);
}

struct schedule *generate_dualpipe(const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks, m = request->micro_batches;
    if (p % 2 == 0 && (m % 2 != 0 || m < 2 * (uint64_t)p)) {
        const uint32_t nearest = m < 2 * (uint64_t)p ? 2 * p : m + 1;
        error_set(error, "dualpipe needs an even number of micro-batches, at least two for each rank: %u, not %u",
                  nearest, m);
        return NULL;
    }
    return generate_ranks(generate_two_ways("dualpipe", request, error), add_rank, error);
}
