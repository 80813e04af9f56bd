#include "schedules/search/order_mend.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"

enum { MOST_SIDEWAYS = 100 };

// Moves an entry of a rank's list from position `from` to position `to`.
struct order_change {
    uint32_t rank, from, to;
};

bool order_mend_create(struct order_mend *mend, const struct order_problem *problem, struct error *error)
{
    const size_t all = (size_t)problem->ranks * problem->moves;
    *mend = (struct order_mend){ 0 };
    if (!order_clock_create(&mend->clock, problem, error))
        return false;
    mend->ends_ns = arrays_add(&mend->arrays, all, sizeof *mend->ends_ns);
    mend->number = arrays_add(&mend->arrays, all, sizeof *mend->number);
    mend->position = arrays_add(&mend->arrays, all, sizeof *mend->position);
    mend->changes = arrays_add(&mend->arrays, 4 * all, sizeof *mend->changes);
    mend->saved = arrays_add(&mend->arrays, problem->moves, sizeof *mend->saved);
    mend->clock.ends_ns = mend->ends_ns;
    if (!mend->arrays.failed)
        return true;
    order_mend_clear(mend);
    return error_no_memory(error, "the search for an order");
}

void order_mend_clear(struct order_mend *mend)
{
    order_clock_clear(&mend->clock);
    arrays_clear(&mend->arrays);
    *mend = (struct order_mend){ 0 };
}

// --- how good an order is ---------------------------------------------------------------

struct verdict {
    uint64_t time_ns;
    uint64_t excess_ns;  // excess over the bound, summed over all ranks
};

static struct verdict judge(struct order_mend *mend, const order_move *order, uint64_t bound_ns)
{
    const struct order_problem *problem = mend->clock.problem;
    struct verdict verdict = { order_time(&mend->clock, order), 0 };
    for (uint32_t rank = 0; verdict.time_ns != NEVER_NS && rank < problem->ranks; rank++) {
        const uint64_t time = mend->clock.free_ns[rank] + problem->step_ns[rank] - problem->offset_ns[rank];
        verdict.excess_ns += time > bound_ns ? time - bound_ns : 0;
    }
    return verdict;
}

static int compare(struct verdict a, struct verdict b)
{
    if (a.time_ns != b.time_ns)
        return a.time_ns < b.time_ns ? -1 : 1;
    return a.excess_ns < b.excess_ns ? -1 : a.excess_ns > b.excess_ns;
}

// --- the critical path --------------------------------------------------------------------

static void number_moves(struct order_mend *mend, const order_move *order)
{
    const struct order_problem *problem = mend->clock.problem;
    const size_t m = problem->micro_batches;
    memset(mend->clock.done, 0, (size_t)problem->stages * 3 * sizeof *mend->clock.done);
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        for (uint32_t position = 0; position < problem->moves; position++) {
            const order_move move = order[(size_t)rank * problem->moves + position];
            const size_t row = (size_t)problem_stage(problem, rank, move / 3u) * 3 + move % 3u;
            const uint32_t i = mend->clock.done[row]++;
            mend->number[(size_t)rank * problem->moves + position] = i;
            mend->position[row * m + i] = position;
        }
    }
}

struct place {
    uint32_t rank, at;
};

static uint32_t worst_rank(const struct order_mend *mend)
{
    const struct order_problem *problem = mend->clock.problem;
    uint32_t worst = 0;
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        const uint64_t time = mend->clock.free_ns[rank] + problem->step_ns[rank] - problem->offset_ns[rank];
        if (time > most) {
            most = time;
            worst = rank;
        }
    }
    return worst;
}

// Finds the move that gives the input for which the move at `place` had to wait. Returns false if it waited only for
// its rank.
static bool giver_of(const struct order_mend *mend, const order_move *order, struct place place, struct place *giver)
{
    const struct order_problem *problem = mend->clock.problem;
    const size_t m = problem->micro_batches, index = (size_t)place.rank * problem->moves + place.at;
    const enum move_kind kind = (enum move_kind)(order[index] % 3u);
    const uint32_t s = problem_stage(problem, place.rank, order[index] / 3u), i = mend->number[index];
    const uint64_t start = mend->ends_ns[index] - problem->stage[s].cost_ns[kind];
    if (kind == MOVE_W || (kind == MOVE_F && s == 0))
        return false;
    const uint64_t arrived = (kind == MOVE_F ? mend->clock.f_arrived : mend->clock.i_arrived)[s * m + i];
    if (arrived < start || (place.at > 0 && mend->ends_ns[index - 1] == start))
        return false;
    const uint32_t from = kind == MOVE_F ? s - 1 : s + 1 < problem->stages ? s + 1 : s;
    const enum move_kind gives = kind == MOVE_I && s + 1 < problem->stages ? MOVE_I : MOVE_F;
    *giver = (struct place){ problem->stage[from].rank, mend->position[((size_t)from * 3 + gives) * m + i] };
    return true;
}

// The next pause of a rank after a position, where a move delays nothing.
static uint32_t next_pause(const struct order_mend *mend, const order_move *order, uint32_t rank, uint32_t position)
{
    const struct order_problem *problem = mend->clock.problem;
    for (position++; position < problem->moves; position++) {
        const size_t index = (size_t)rank * problem->moves + position;
        const uint32_t s = problem_stage(problem, rank, order[index] / 3u);
        if (mend->ends_ns[index] - problem->stage[s].cost_ns[order[index] % 3u] > mend->ends_ns[index - 1])
            break;
    }
    return position - 1;
}

// A move and the one before it are swapped.
static size_t add_swap(struct order_mend *mend, const order_move *order, struct place place, size_t count)
{
    const order_move *moves = order + (size_t)place.rank * mend->clock.problem->moves;
    const struct order_change swap = { place.rank, place.at - 1, place.at };
    const struct order_change *last = count > 0 ? &mend->changes[count - 1] : NULL;
    if (moves[swap.from] == moves[swap.to]
        || (last && last->rank == swap.rank && last->from == swap.from && last->to == swap.to))
        return count;
    mend->changes[count] = swap;
    return count + 1;
}

// A W within a run moves to the next pause of its rank.
static size_t add_jump(struct order_mend *mend, const order_move *order, struct place place, size_t count)
{
    const order_move *moves = order + (size_t)place.rank * mend->clock.problem->moves;
    const uint32_t pause = next_pause(mend, order, place.rank, place.at);
    if (moves[place.at] % 3u != MOVE_W || pause <= place.at + 1)
        return count;
    mend->changes[count] = (struct order_change){ place.rank, place.at, pause };
    return count + 1;
}

// Follows the chain backward from the last end, and records possible changes. The chain consists of runs, each on
// one rank. Only a different first or last move of a run can make the chain shorter, or one W fewer in the run.
static size_t fill_changes(struct order_mend *mend, const order_move *order)
{
    struct place place = { worst_rank(mend), mend->clock.problem->moves - 1 };
    bool ends_run = false;  // whether the chain leaves this rank with the move at `place`
    size_t count = 0;
    number_moves(mend, order);
    for (;;) {
        struct place giver;
        if (giver_of(mend, order, place, &giver)) {
            place = giver;
            ends_run = true;
            continue;
        }
        if (place.at == 0)
            return count;
        if (ends_run)
            count = add_swap(mend, order, place, count);
        const struct place before = { place.rank, place.at - 1 };
        if (before.at == 0 || giver_of(mend, order, before, &giver))
            count = add_swap(mend, order, place, count);
        count = add_jump(mend, order, before, count);
        place = before;
        ends_run = false;
    }
}

static void apply(order_move *moves, uint32_t from, uint32_t to)
{
    const order_move move = moves[from];
    memmove(&moves[from], &moves[from + 1], (to - from) * sizeof *moves);
    moves[to] = move;
}

static void exchange(struct order_change *a, struct order_change *b)
{
    const struct order_change was = *a;
    *a = *b;
    *b = was;
}

// Determines which changes are tried first: those at the end of the chain, in the order found; those at its start;
// or in random order.
static void arrange_changes(struct order_mend *mend, size_t count, enum order_mend_way way)
{
    struct order_change *changes = mend->changes;
    for (size_t i = 0; way == MEND_FROM_START && i < count / 2; i++)
        exchange(&changes[i], &changes[count - 1 - i]);
    for (size_t left = count; way == MEND_ANYWHERE && left > 1; left--)
        exchange(&changes[random_below(&mend->random, left)], &changes[left - 1]);
}

struct attempt {
    struct order_mend *mend;
    order_move *order;
    uint64_t bound_ns;
    struct verdict best;
    struct order_change last;  // the last change that was kept
    uint32_t sideways;         // changes kept in a row without an improvement
};

static bool is_same(struct order_change a, struct order_change b)
{
    return a.rank == b.rank && a.from == b.from && a.to == b.to;
}

// Whether the change is kept. A change that makes nothing better or worse may enable another.
static bool keeps(struct attempt *attempt, struct order_change change)
{
    const size_t size = attempt->mend->clock.problem->moves * sizeof(order_move);
    order_move *moves = order_of_rank(attempt->mend->clock.problem, attempt->order, change.rank);
    memcpy(attempt->mend->saved, moves, size);
    apply(moves, change.from, change.to);
    const struct verdict now = judge(attempt->mend, attempt->order, attempt->bound_ns);
    const int worse = compare(now, attempt->best);
    if (worse > 0 || (worse == 0 && attempt->sideways == MOST_SIDEWAYS)) {
        memcpy(moves, attempt->mend->saved, size);
        return false;
    }
    attempt->sideways = worse < 0 ? 0 : attempt->sideways + 1;
    attempt->best = now;
    attempt->last = change;
    return true;
}

uint64_t order_mend_run(struct order_mend *mend, order_move *order, uint64_t bound_ns, uint64_t *trials,
                        enum order_mend_way way)
{
    struct attempt attempt = { mend, order, bound_ns, judge(mend, order, bound_ns), { UINT32_MAX, 0, 0 }, 0 };
    const struct order_problem *problem = mend->clock.problem;
    bool goes_on = true;  // whether the order is still the one that was judged last
    while (goes_on && attempt.best.time_ns > bound_ns && *trials > 0) {
        const size_t count = fill_changes(mend, order);
        arrange_changes(mend, count, way);
        goes_on = false;
        for (size_t i = 0; !goes_on && i < count && *trials > 0; i++) {
            if (is_same(mend->changes[i], attempt.last))
                continue;  // it would only undo the last change
            goes_on = keeps(&attempt, mend->changes[i]);
            --*trials;
            if (!problem_goes_on(problem, (uint64_t)problem->ranks * problem->moves))
                return attempt.best.time_ns;
        }
    }
    return attempt.best.time_ns;
}
