#include "schedules/search/order_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

// --- creating and clearing --------------------------------------------------------------

// The offset that a rank subtracts from its end may exceed the time to that end. The tail is then negative.
static void fill_tails(struct order_state *state)
{
    const struct order_problem *problem = state->clock.problem;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const struct order_stage *stage = &problem->stage[s];
        int64_t tail = INT64_MIN, way = 0;
        for (uint32_t to = s + 1; to-- > 0;) {
            const struct order_stage *other = &problem->stage[to];
            if (to < s)
                way += (int64_t)(other->after_ns + other->cost_ns[MOVE_I]);
            const int64_t late = way + (int64_t)(other->cost_ns[MOVE_W] + problem->step_ns[other->rank])
                               - (int64_t)problem->offset_ns[other->rank];
            tail = late > tail ? late : tail;
        }
        state->tail_ns[stage->rank] = tail;
    }
}

static void fill_most(struct order_state *state)
{
    const struct order_problem *problem = state->clock.problem;
    for (uint32_t s = 0; s < problem->stages; s++)
        state->most[s] = problem_most_ahead(problem, s);
}

bool order_state_create(struct order_state *state, const struct order_problem *problem, struct error *error)
{
    const size_t units = (size_t)problem->stages * problem->micro_batches;
    *state = (struct order_state){ 0 };
    if (!order_clock_create(&state->clock, problem, error))
        return false;
    state->used_bytes = arrays_add(&state->arrays, problem->ranks, sizeof *state->used_bytes);
    state->held = arrays_add(&state->arrays, problem->ranks, sizeof *state->held);
    state->order = arrays_add(&state->arrays, (size_t)problem->ranks * problem->moves, sizeof *state->order);
    state->f_end = arrays_add(&state->arrays, units, sizeof *state->f_end);
    state->i_end = arrays_add(&state->arrays, units, sizeof *state->i_end);
    state->tail_ns = arrays_add(&state->arrays, problem->ranks, sizeof *state->tail_ns);
    state->most = arrays_add(&state->arrays, problem->stages, sizeof *state->most);
    if (state->arrays.failed) {
        order_state_clear(state);
        return error_no_memory(error, "the search for an order");
    }
    fill_tails(state);
    fill_most(state);
    order_state_reset(state);
    return true;
}

void order_state_clear(struct order_state *state)
{
    order_clock_clear(&state->clock);
    arrays_clear(&state->arrays);
    *state = (struct order_state){ 0 };
}

void order_state_reset(struct order_state *state)
{
    order_clock_reset(&state->clock);
    memset(state->used_bytes, 0, state->clock.problem->ranks * sizeof *state->used_bytes);
    memset(state->held, 0, state->clock.problem->ranks * sizeof *state->held);
}

// --- moves -----------------------------------------------------------------------------

uint64_t order_state_start(const struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind)
{
    const struct order_problem *problem = state->clock.problem;
    const uint32_t s = problem_stage(problem, rank, chunk), m = problem->micro_batches;
    const struct order_stage *stage = &problem->stage[s];
    const uint32_t *done = &state->clock.done[s * 3];
    uint64_t ready = 0;
    if (done[kind] == m || (kind == MOVE_W && done[MOVE_W] == done[MOVE_I])
        || (kind == MOVE_F && state->used_bytes[rank] + stage->kept_forward_bytes > problem->room_bytes[rank])
        || (kind == MOVE_I && state->used_bytes[rank] + order_stage_growth(stage) > problem->room_bytes[rank])
        || (kind == MOVE_F && (state->held[rank] >> chunk & 1)))
        return NEVER_NS;
    if (kind != MOVE_W)
        ready = (kind == MOVE_F ? state->clock.f_arrived : state->clock.i_arrived)[(size_t)s * m + done[kind]];
    return ready > state->clock.free_ns[rank] ? ready : state->clock.free_ns[rank];
}

struct order_undo order_state_make(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind)
{
    struct order_clock *clock = &state->clock;
    const uint32_t s = problem_stage(clock->problem, rank, chunk);
    const struct order_stage *stage = &clock->problem->stage[s];
    const struct order_undo was = { clock->free_ns[rank], state->held[rank] };
    const uint64_t start = order_state_start(state, rank, chunk, kind);
    clock->free_ns[rank] = start + stage->cost_ns[kind];
    state->order[(size_t)rank * clock->problem->moves + clock->at[rank]++] = (order_move)(3 * chunk + kind);
    order_clock_give(clock, s, kind, clock->done[s * 3 + kind]++, clock->free_ns[rank]);
    if (kind == MOVE_F) {
        state->used_bytes[rank] += stage->kept_forward_bytes;
        state->held[rank] = 0;
    } else if (kind == MOVE_I) {
        state->used_bytes[rank] -= stage->kept_forward_bytes - stage->kept_weight_bytes;
    } else {
        state->used_bytes[rank] -= stage->kept_weight_bytes;
    }
    return was;
}

void order_state_undo(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind,
                      struct order_undo was)
{
    struct order_clock *clock = &state->clock;
    const uint32_t s = problem_stage(clock->problem, rank, chunk), m = clock->problem->micro_batches;
    const struct order_stage *stage = &clock->problem->stage[s];
    const uint32_t i = --clock->done[s * 3 + kind];
    clock->free_ns[rank] = was.free_ns;
    state->held[rank] = was.held;
    clock->at[rank]--;
    if (kind == MOVE_F && s + 1 < clock->problem->stages)
        clock->f_arrived[(size_t)(s + 1) * m + i] = NEVER_NS;
    else if (kind == MOVE_F)
        clock->i_arrived[(size_t)s * m + i] = NEVER_NS;
    else if (kind == MOVE_I && s > 0)
        clock->i_arrived[(size_t)(s - 1) * m + i] = NEVER_NS;
    if (kind == MOVE_F)
        state->used_bytes[rank] -= stage->kept_forward_bytes;
    else if (kind == MOVE_I)
        state->used_bytes[rank] += stage->kept_forward_bytes - stage->kept_weight_bytes;
    else
        state->used_bytes[rank] += stage->kept_weight_bytes;
}

// --- the bound ------------------------------------------------------------------------------

// The earliest times at which micro-batch i ends its F and its I on every stage.
static void follow_forward(struct order_state *state, uint32_t i)
{
    const struct order_clock *clock = &state->clock;
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches;
    uint64_t arrives = 0;
    for (uint32_t s = 0; s < problem->stages; s++) {
        const struct order_stage *stage = &problem->stage[s];
        if (i < clock->done[s * 3 + MOVE_F]) {
            if (s + 1 < problem->stages)
                arrives = clock->f_arrived[(s + 1) * m + i];
            else
                state->f_end[s * m + i] = clock->i_arrived[s * m + i];
            continue;
        }
        uint64_t start = max_u64(arrives, clock->free_ns[stage->rank]);
        if (i > clock->done[s * 3 + MOVE_F])
            start = max_u64(start, state->f_end[s * m + i - 1]);
        if (i >= state->most[s] + clock->done[s * 3 + MOVE_I])
            start = max_u64(start, state->i_end[s * m + i - state->most[s]]);
        state->f_end[s * m + i] = start + stage->cost_ns[MOVE_F];
        arrives = start + stage->cost_ns[MOVE_F] + stage->after_ns;
    }
}

static void follow_backward(struct order_state *state, uint32_t i)
{
    const struct order_clock *clock = &state->clock;
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches;
    uint64_t arrives = state->f_end[(problem->stages - 1) * m + i];
    for (uint32_t s = problem->stages; s-- > 0;) {
        const struct order_stage *stage = &problem->stage[s];
        if (i < clock->done[s * 3 + MOVE_I]) {
            if (s > 0)
                arrives = clock->i_arrived[(s - 1) * m + i];
            continue;
        }
        uint64_t start = max_u64(arrives, clock->free_ns[stage->rank]);
        if (i > clock->done[s * 3 + MOVE_I])
            start = max_u64(start, state->i_end[s * m + i - 1]);
        state->i_end[s * m + i] = start + stage->cost_ns[MOVE_I];
        arrives = start + stage->cost_ns[MOVE_I] + stage->before_ns;
    }
}

// The remaining moves of a rank of one stage and kind, in their order.
struct queue {
    const uint64_t *ends_ns;  // per micro-batch: the earliest end; for W, that of its I
    uint64_t cost_ns, early_ns;
    uint32_t next, end;
    uint32_t ready;  // the moves before this one can run at any time
};

static uint64_t release_of(const struct queue *queue)
{
    if (queue->next >= queue->end)
        return NEVER_NS;
    return queue->next < queue->ready ? 0 : queue->ends_ns[queue->next] - queue->early_ns;
}

// The end of all queues if the rank does everything as soon as it becomes possible.
static uint64_t drain(struct queue *queues, uint32_t count, uint64_t now)
{
    for (;;) {
        struct queue *first = NULL;
        uint64_t release = NEVER_NS;
        for (uint32_t q = 0; q < count; q++) {
            if (release_of(&queues[q]) < release) {
                release = release_of(&queues[q]);
                first = &queues[q];
            }
        }
        if (!first)
            return now;
        now = max_u64(now, release) + first->cost_ns;
        first->next++;
    }
}

static struct queue queue_of(const struct order_state *state, uint32_t stage, enum move_kind kind)
{
    const size_t m = state->clock.problem->micro_batches;
    const uint64_t cost = state->clock.problem->stage[stage].cost_ns[kind];
    return (struct queue){ .ends_ns = (kind == MOVE_F ? state->f_end : state->i_end) + stage * m, .cost_ns = cost,
                           .early_ns = kind == MOVE_W ? 0 : cost, .next = state->clock.done[stage * 3 + kind],
                           .end = (uint32_t)m,
                           .ready = kind == MOVE_W ? state->clock.done[stage * 3 + MOVE_I] : 0 };
}

static uint64_t bound_of_rank(const struct order_state *state, uint32_t rank)
{
    const struct order_problem *problem = state->clock.problem;
    struct queue chain[2 * MOST_CHUNKS], all[3 * MOST_CHUNKS];
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {
        const uint32_t s = problem_stage(problem, rank, chunk);
        all[3 * chunk] = chain[2 * chunk] = queue_of(state, s, MOVE_F);
        all[3 * chunk + 1] = chain[2 * chunk + 1] = queue_of(state, s, MOVE_I);
        all[3 * chunk + 2] = queue_of(state, s, MOVE_W);
    }
    const uint64_t free_ns = state->clock.free_ns[rank];
    const uint32_t first = problem_stage(problem, rank, 0);
    const uint64_t end = drain(all, 3 * problem->chunks, free_ns) + problem->step_ns[rank];
    const uint64_t bound = end - problem->offset_ns[rank];
    if (state->clock.done[first * 3 + MOVE_I] == problem->micro_batches)
        return bound;
    const int64_t behind = (int64_t)drain(chain, 2 * problem->chunks, free_ns) + state->tail_ns[rank];
    return behind > (int64_t)bound ? (uint64_t)behind : bound;
}

uint64_t order_state_bound(struct order_state *state, uint64_t *sum_ns)
{
    const struct order_problem *problem = state->clock.problem;
    uint64_t bound = 0, sum = 0;
    for (uint32_t i = state->clock.done[MOVE_I]; i < problem->micro_batches; i++) {  // stage 0 is done with the others
        follow_forward(state, i);
        follow_backward(state, i);
    }
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        const uint64_t of_rank = bound_of_rank(state, rank);
        bound = max_u64(bound, of_rank);
        sum += of_rank;
    }
    if (sum_ns)
        *sum_ns = sum;
    return bound;
}

// --- the next moves --------------------------------------------------------------------------

static struct order_option option_of(const struct order_state *state, uint32_t rank, uint32_t number)
{
    const struct order_problem *problem = state->clock.problem;
    const uint32_t chunk = number / 3;
    const enum move_kind kind = (enum move_kind)(number % 3);
    const uint64_t start = order_state_start(state, rank, chunk, kind);
    const uint64_t cost = problem->stage[problem_stage(problem, rank, chunk)].cost_ns[kind];
    return (struct order_option){ .rank = rank, .chunk = chunk, .kind = kind, .start_ns = start,
                                  .end_ns = start == NEVER_NS ? NEVER_NS : start + cost };
}

static struct order_option first_to_end(const struct order_state *state)
{
    const struct order_problem *problem = state->clock.problem;
    struct order_option first = { .end_ns = NEVER_NS };
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        for (uint32_t number = 0; number < 3 * problem->chunks; number++) {
            const struct order_option option = option_of(state, rank, number);
            if (option.end_ns < first.end_ns)
                first = option;
        }
    }
    return first;
}

uint32_t order_state_options(const struct order_state *state, struct order_option options[MOST_OPTIONS])
{
    const struct order_option first = first_to_end(state);
    uint32_t count = 0;
    if (first.end_ns != NEVER_NS)
        options[count++] = first;
    for (uint32_t number = 0; first.end_ns != NEVER_NS && number < 3 * state->clock.problem->chunks; number++) {
        const struct order_option option = option_of(state, first.rank, number);
        const bool same = option.chunk == first.chunk && option.kind == first.kind;
        if (!same && option.start_ns < first.end_ns)
            options[count++] = option;
    }
    return count;
}

// Whether the F's that the rank has not done yet might not all find room at the same time.
bool order_state_may_hold(const struct order_state *state, const struct order_option *option)
{
    const struct order_problem *problem = state->clock.problem;
    uint64_t all = state->used_bytes[option->rank];
    if (option->kind != MOVE_F || problem->chunks == 1)
        return false;
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {
        const uint32_t s = problem_stage(problem, option->rank, chunk);
        all += (problem->micro_batches - state->clock.done[s * 3 + MOVE_F]) * problem->stage[s].kept_forward_bytes;
    }
    return all > problem->room_bytes[option->rank];
}

static bool is_better(const struct order_option *a, const struct order_option *b)
{
    return a->bound_ns < b->bound_ns || (a->bound_ns == b->bound_ns && a->sum_ns < b->sum_ns);
}

void order_state_weigh(struct order_state *state, struct order_option *options, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct order_option option = options[i];
        const struct order_undo was = order_state_make(state, option.rank, option.chunk, option.kind);
        option.bound_ns = order_state_bound(state, &option.sum_ns);
        order_state_undo(state, option.rank, option.chunk, option.kind, was);
        uint32_t hole = i;
        for (; hole > 0 && is_better(&option, &options[hole - 1]); hole--)
            options[hole] = options[hole - 1];
        options[hole] = option;
    }
}

bool order_state_is_complete(const struct order_state *state)
{
    const struct order_problem *problem = state->clock.problem;
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        if (state->clock.at[rank] < problem->moves)
            return false;
    }
    return true;
}

// --- copies -----------------------------------------------------------------------------------------

struct part {
    void *data;
    size_t size;
};
enum { PARTS = 7 };

static void list_parts(const struct order_state *state, const struct order_problem *problem, struct part *parts)
{
    const size_t p = problem->ranks, units = (size_t)problem->stages * problem->micro_batches;
    const struct order_clock *clock = &state->clock;
    parts[0] = (struct part){ clock->f_arrived, units * sizeof *clock->f_arrived };
    parts[1] = (struct part){ clock->i_arrived, units * sizeof *clock->i_arrived };
    parts[2] = (struct part){ clock->free_ns, p * sizeof *clock->free_ns };
    parts[3] = (struct part){ state->used_bytes, p * sizeof *state->used_bytes };
    parts[4] = (struct part){ clock->done, (size_t)problem->stages * 3 * sizeof *clock->done };
    parts[5] = (struct part){ clock->at, p * sizeof *clock->at };
    parts[6] = (struct part){ state->order, p * problem->moves * sizeof *state->order };
}

size_t order_state_size(const struct order_problem *problem)
{
    const struct order_state none = { 0 };
    struct part parts[PARTS];
    size_t size = 0;
    list_parts(&none, problem, parts);
    for (int i = 0; i < PARTS; i++)
        size += parts[i].size;
    return (size + 7) / 8 * 8;
}

void order_state_save(const struct order_state *state, void *copy)
{
    struct part parts[PARTS];
    char *to = copy;
    list_parts(state, state->clock.problem, parts);
    for (int i = 0; i < PARTS; to += parts[i++].size)
        memcpy(to, parts[i].data, parts[i].size);
}

void order_state_load(struct order_state *state, const void *copy)
{
    struct part parts[PARTS];
    const char *from = copy;
    list_parts(state, state->clock.problem, parts);
    for (int i = 0; i < PARTS; from += parts[i++].size)
        memcpy(parts[i].data, from, parts[i].size);
}
