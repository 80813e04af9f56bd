#include "schedules/search/order_bound.h"

#include <stdlib.h>

#include "common/number.h"
#include "schedules/search/order_start.h"

// --- times between stages of a micro-batch ---------------------------------------------

// The least time from the start of F on stage `from` to the start of I on stage `to`.
static uint64_t way_back(const struct order_problem *problem, uint32_t from, uint32_t to)
{
    uint64_t way = 0;
    for (uint32_t s = from; s < problem->stages; s++)
        way += problem->stage[s].cost_ns[MOVE_F] + problem->stage[s].after_ns;
    for (uint32_t s = problem->stages; s-- > to + 1;)
        way += problem->stage[s].cost_ns[MOVE_I] + problem->stage[s].before_ns;
    return way;
}

// --- what a rank can do in that time ---------------------------------------------------

// Work that can be done up to `count` times, and keeps `bytes` each time.
struct filler {
    uint64_t worth_ns, bytes, count;
};

// The most work that fits into the room, if fillers can be split: those with most work per byte go first.
static uint64_t fill_room(struct filler *fillers, size_t count, uint64_t room)
{
    uint64_t worth = 0;
    for (size_t turn = 0; turn < count; turn++) {
        struct filler *best = NULL;
        for (size_t i = 0; i < count; i++) {
            struct filler *filler = &fillers[i];
            if (filler->count && (!best || (unsigned __int128)filler->worth_ns * best->bytes
                                               > (unsigned __int128)best->worth_ns * filler->bytes))
                best = filler;
        }
        if (!best)
            break;
        const uint64_t fits = best->bytes ? min_u64(best->count, room / best->bytes) : best->count;
        worth += fits * best->worth_ns;
        room -= fits * best->bytes;
        if (fits < best->count)  // a part of one more, rounded up, and the room is full
            return worth + (uint64_t)(((unsigned __int128)best->worth_ns * room + best->bytes - 1) / best->bytes);
        best->count = 0;
    }
    return worth;
}

// The most time that F's before the first I can take.
static uint64_t most_forward(const struct order_problem *problem, uint32_t rank)
{
    const struct order_stage *only = &problem->stage[problem_stage(problem, rank, 0)];
    const uint64_t room = problem->room_bytes[rank], m = problem->micro_batches;
    if (problem->chunks == 1)
        return only->cost_ns[MOVE_F] * problem_most_ahead(problem, problem_stage(problem, rank, 0));
    struct filler fillers[MOST_CHUNKS];
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {
        const struct order_stage *stage = &problem->stage[problem_stage(problem, rank, chunk)];
        fillers[chunk] = (struct filler){ stage->cost_ns[MOVE_F], stage->kept_forward_bytes, m };
    }
    return fill_room(fillers, problem->chunks, room);
}

// The most work that can be left after the last F with one stage per rank. For `whole` micro-batches I and W are
// left; if there is more room, only W is left for some others.
static uint64_t most_backward_of(const struct order_stage *stage, uint64_t m, uint64_t room)
{
    const uint64_t i = stage->cost_ns[MOVE_I], w = stage->cost_ns[MOVE_W];
    const uint64_t kept = stage->kept_forward_bytes, held = stage->kept_weight_bytes;
    uint64_t best = 0;
    for (uint64_t whole = 1; whole <= m && whole * kept <= room; whole++) {
        const uint64_t halves = held ? min_u64(m - whole, (room - whole * kept) / held) : m - whole;
        best = max_u64(best, whole * (i + w) + halves * w);
    }
    return best;
}

static uint64_t most_backward(const struct order_problem *problem, uint32_t rank)
{
    const uint64_t m = problem->micro_batches;
    uint64_t room = problem->room_bytes[rank], certain = 0, all = 0;
    if (problem->chunks == 1)
        return most_backward_of(&problem->stage[problem_stage(problem, rank, 0)], m, room);
    struct filler fillers[2 * MOST_CHUNKS];
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {  // the last micro-batch is on every stage
        const struct order_stage *stage = &problem->stage[problem_stage(problem, rank, chunk)];
        const uint64_t i = stage->cost_ns[MOVE_I], w = stage->cost_ns[MOVE_W];
        room -= stage->kept_forward_bytes;
        certain += i + w;
        all += m * (i + w);
        fillers[2 * chunk] = (struct filler){ i + w, stage->kept_forward_bytes, m - 1 };
        fillers[2 * chunk + 1] = (struct filler){ w, stage->kept_weight_bytes, m - 1 };
    }
    return min_u64(all, certain + fill_room(fillers, 2 * problem->chunks, room));
}

// --- what a rank implies for the end of each rank ---------------------------------------

struct view {
    uint64_t start_ns;    // the least time lost before the first I
    uint64_t left_ns;     // the most work after the last F
    uint64_t last_i_ns;   // the least time from the end of the last F to the end of the last I
    bool first_i_before_last_f;         // whether the first I certainly comes before the last F
};

static struct view view_of(const struct order_problem *problem, uint32_t rank)
{
    const uint32_t first = problem_stage(problem, rank, 0);
    const uint32_t last = problem_stage(problem, rank, problem->chunks - 1);
    uint64_t all_bytes = 0;
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++)
        all_bytes += problem->stage[problem_stage(problem, rank, chunk)].kept_forward_bytes * problem->micro_batches;
    const uint64_t there = way_back(problem, first, last), fill = most_forward(problem, rank);
    return (struct view){
        .start_ns = there > fill ? there - fill : 0,
        .left_ns = most_backward(problem, rank),
        .last_i_ns = way_back(problem, last, first) - problem->stage[last].cost_ns[MOVE_F]
                   + problem->stage[first].cost_ns[MOVE_I],
        .first_i_before_last_f = all_bytes > problem->room_bytes[rank],
    };
}

// From the end of the last I of a rank's first stage to the end of `other`, whose first stage is earlier or the
// same.
static uint64_t way_to_end(const struct order_problem *problem, uint32_t rank, uint32_t other)
{
    const uint32_t to = problem_stage(problem, other, 0);
    uint64_t way = problem->stage[to].cost_ns[MOVE_W] + problem->step_ns[other];
    for (uint32_t s = problem_stage(problem, rank, 0); s-- > to;)
        way += problem->stage[s].cost_ns[MOVE_I] + problem->stage[s].after_ns;
    return way;
}

static uint64_t bound_by(const struct order_problem *problem, uint32_t rank)
{
    const struct view view = view_of(problem, rank);
    const uint64_t head = problem->head_ns[rank], work = problem->work_ns[rank];
    uint64_t bound = head - problem->offset_ns[rank] + work + problem->step_ns[rank] + view.start_ns;
    const uint64_t before = work - view.left_ns + (view.first_i_before_last_f ? view.start_ns : 0);
    for (uint32_t s = 0; s <= problem_stage(problem, rank, 0); s++) {
        // stage s is in the first round, and thus the first stage of that rank
        const uint32_t other = problem->stage[s].rank;
        const uint64_t end = head + before + view.last_i_ns + way_to_end(problem, rank, other);
        bound = max_u64(bound, end - problem->offset_ns[other]);
    }
    return bound;
}

// --- one stage per rank ------------------------------------------------------------------

// Rounds: with room for k micro-batches, F of i + k waits for I of i. If there is no room for what W needs besides
// them, it also waits for W of i, or else for I of i + 1.
static uint64_t bound_by_rounds(const struct order_problem *problem, uint32_t stage)
{
    const struct order_stage *here = &problem->stage[stage];
    const uint64_t room = problem->room_bytes[here->rank], m = problem->micro_batches;
    const uint64_t k = problem_most_ahead(problem, stage);
    if (k >= m)
        return 0;
    const bool cramped = room - k * here->kept_forward_bytes < here->kept_weight_bytes;
    const uint64_t more = cramped ? min_u64(here->cost_ns[MOVE_W], here->cost_ns[MOVE_I]) : 0;
    const uint64_t round = way_back(problem, stage, stage) + here->cost_ns[MOVE_I] + more;
    return problem->head_ns[here->rank] - problem->offset_ns[here->rank] + (m - 1) % k * here->cost_ns[MOVE_F]
         + ((m - 1) / k + 1) * round - more + here->cost_ns[MOVE_W] + problem->step_ns[here->rank];
}

// The time of a rank that loses nothing before its first I.
static uint64_t time_without_start(const struct order_problem *problem, uint32_t rank)
{
    const struct view view = view_of(problem, rank);
    const uint64_t left = view.last_i_ns + problem->stage[problem_stage(problem, rank, 0)].cost_ns[MOVE_W];
    const uint64_t lost = view.first_i_before_last_f && left > view.left_ns ? left - view.left_ns : 0;
    return problem->head_ns[rank] - problem->offset_ns[rank] + problem->work_ns[rank] + problem->step_ns[rank] + lost;
}

void order_slack(const struct order_problem *problem, uint64_t time_ns, uint64_t *slack_ns)
{
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        const uint64_t least_ns = time_without_start(problem, rank);
        slack_ns[rank] = time_ns > least_ns ? time_ns - least_ns : 0;
    }
}

// The least time for which the first part of every rank is possible.
static uint64_t bound_by_start(const struct order_problem *problem, uint64_t bound, uint64_t *slack_ns)
{
    uint64_t step = 1;
    for (order_slack(problem, bound, slack_ns); !order_start(problem, slack_ns, NULL); step *= 2)
        order_slack(problem, bound + step, slack_ns);
    uint64_t low = bound, high = bound + step;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        order_slack(problem, middle, slack_ns);
        if (order_start(problem, slack_ns, NULL))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool order_bound(const struct order_problem *problem, uint64_t *bound_ns, struct error *error)
{
    uint64_t bound = 0;
    for (uint32_t rank = 0; rank < problem->ranks; rank++)
        bound = max_u64(bound, bound_by(problem, rank));
    if (problem->chunks == 1) {
        uint64_t *slack_ns = calloc(problem->ranks, sizeof *slack_ns);
        if (!slack_ns)
            return error_no_memory(error, "the bound of an order");
        for (uint32_t stage = 0; stage < problem->stages; stage++)
            bound = max_u64(bound, bound_by_rounds(problem, stage));
        bound = bound_by_start(problem, bound, slack_ns);
        free(slack_ns);
    }
    *bound_ns = bound;
    return true;
}
