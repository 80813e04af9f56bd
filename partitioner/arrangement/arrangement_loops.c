// Paths through two neighbouring stages, s and t, with A_s and A_t micro-batches ahead. From
// one backward to a later one of the same stage leads
//
//     of s            B_s(x) -> F_s(x + A_s) -> B_s(x + r_s)                               W_s = F_s + B_s
//     of t            B_t(x) -> F_t(x + A_t) -> B_t(x + r_t)                               W_t
//     of s over t     B_s(x) -> F_s(x + A_s) -> F_t(x + A_s) -> B_t(x + A_s - A_t + r_t)
//                            -> B_s(x + A_s - A_t + r_t)                                   W_s + W_t + ways
//
// A path goes to the end with the first micro-batch and back to t, around there, on to s and
// around there, and with the last one to the end and back again. It may go around as it
// likes, each of them as often as it likes, as long as no more than m - 1 - A_s micro-batches
// are passed. All pass about one in the same time. So a path is long where few are left over,
// which of one kind alone are up to r - 1.
#include "partitioner/arrangement/arrangement_reach.h"

// So often another one first that the one that passes `most` leaves fewest over, if those are fewer than without it.
static uint32_t few_of(uint32_t over, uint32_t most, uint32_t few, uint32_t passed)
{
    enum { TRIES = 6 };
    uint32_t best = 0, left = over;
    const uint32_t step = few % most;
    for (uint32_t i = 1, sum = few; i <= TRIES && sum <= passed && over > 0; i++, sum += few) {
        left = left >= step ? left - step : left + most - step;
        if (left < over) {
            over = left;
            best = i;
        }
    }
    return best;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t room_of(uint32_t left, uint32_t ranks)
{
    return (left + ranks - 1) / ranks * ranks;
}

// Of one kind as many as there can be, but first a few of another one.
static void fill(struct loops_of *loops, const uint32_t *kinds, uint32_t passed, int most, int few)
{
    uint32_t often[3] = { 0 };
    often[few] = few_of(passed % kinds[most], kinds[most], kinds[few], passed);
    often[most] = (passed - often[few] * kinds[few]) / kinds[most];
    loops->at[loops->count++] = (struct loops){ often[0], often[1], often[2] };
}

struct loops_of loops_find(const struct floor *floor, uint32_t ranks_front, uint32_t ranks_back, uint32_t left,
                           bool from_back)
{
    enum { FRONT, BOTH, BACK };
    const uint32_t m = floor->bounds->request->micro_batches;
    const uint32_t room = room_of(left + ranks_front, ranks_front);
    struct loops_of loops = { .count = 0 };
    if (floor->is_gpipe || room >= m)
        return loops;
    const uint32_t passed = m - 1 - room, kinds[] = { ranks_front, room - room_of(left, ranks_back) + ranks_back,
                                                      ranks_back };
    const int far = from_back ? FRONT : BACK, near = from_back ? BACK : FRONT;
    fill(&loops, kinds, passed, BOTH, far);
    fill(&loops, kinds, passed, far, BOTH);
    fill(&loops, kinds, passed, far, near);
    if (from_back)
        loops.at[2].back = smaller(loops.at[2].back, loops.at[2].front);
    else
        loops.at[2].front = smaller(loops.at[2].front, loops.at[2].back);
    return loops;
}

uint64_t loops_path(const struct floor *floor, const struct loops_of *loops, uint32_t first, uint32_t middle,
                    uint32_t end, struct loop_ways ways)
{
    const uint32_t layers = floor->bounds->layers;
    const uint64_t front = floor_round(floor, first, middle) + ways.front_again;
    const uint64_t back = floor_round(floor, middle, end) + ways.back_again;
    const uint64_t both = front + back + ways.between;
    uint64_t most = 0;
    for (size_t i = 0; i < loops->count; i++) {
        const struct loops *at = &loops->at[i];
        const uint64_t ns = at->front * front + at->both * both + at->back * back;
        most = ns > most ? ns : most;
    }
    return loops->count == 0 ? 0 : most + floor_round(floor, 0, layers) + floor_round(floor, first, layers) + ways.all
                                   + ways.behind;
}
