#include "schedules/search/order_problem.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

const char *const order_placement_names[] = { "one-way", "v", "wave", NULL };
const char *const order_objective_names[] = { "span", "makespan", NULL };

// --- the problem ----------------------------------------------------------------

static uint32_t rank_of_stage(const struct order_request *request, uint32_t stage)
{
    const uint32_t round = stage / request->ranks, seat = stage % request->ranks;
    const bool turns = request->placement != PLACEMENT_ONE_WAY && round % 2 == 1;
    return turns ? request->ranks - 1 - seat : seat;
}

static bool refuse_request(const struct order_request *request, struct error *error)
{
    const uint32_t v = request->chunks;
    if (request->placement == PLACEMENT_V && v != 2)
        return error_set(error, "a V has two stages per rank: chunks must be 2, not %u", v);
    if (request->placement == PLACEMENT_WAVE && v % 2 != 0)
        return error_set(error, "a wave goes there and back: chunks must be even, such as %u, not %u", v + 1, v);
    if (v > MOST_CHUNKS)
        return error_set(error, "the search takes up to %u stages per rank, not %u", (unsigned)MOST_CHUNKS, v);
    if ((uint64_t)v * request->ranks > UINT16_MAX)
        return error_set(error, "%u ranks with %u stages each are more than 65535 stages", request->ranks, v);
    return true;
}

// Times are summed along chains of actions, so the sum of all of them must fit into a clock.
static bool costs_are_possible(const struct order_request *request, struct error *error)
{
    const uint32_t stages = request->ranks * request->chunks;
    const unsigned __int128 limit = (unsigned __int128)1 << 60;
    unsigned __int128 sum = (unsigned __int128)request->latency_ns * 2 * stages * request->micro_batches;
    unsigned __int128 kept = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const struct cost_row *row = &request->costs[s];
        kept += (unsigned __int128)max_u64(row->kept_forward_bytes, row->kept_weight_bytes) * request->micro_batches;
        sum += ((unsigned __int128)row->forward_ns + row->backward_input_ns + row->recompute_ns
                + row->backward_weight_ns) * request->micro_batches + row->step_ns;
    }
    return (sum < limit || error_set(error, "the times of all actions add up to more than 2^60 ns"))
        && (kept < limit || error_set(error, "what all micro-batches keep adds up to more than 2^60 bytes"));
}

static void fill_stages(struct order_problem *problem)
{
    const struct order_request *request = problem->request;
    for (uint32_t s = 0; s < problem->stages; s++) {
        const struct cost_row *row = &request->costs[s];
        struct order_stage *stage = &problem->stage[s];
        const uint32_t rank = rank_of_stage(request, s);
        const bool comes = s > 0 && rank_of_stage(request, s - 1) != rank;
        const bool goes = s + 1 < problem->stages && rank_of_stage(request, s + 1) != rank;
        *stage = (struct order_stage){
            .cost_ns = { row->forward_ns, row->backward_input_ns + row->recompute_ns, row->backward_weight_ns },
            .before_ns = comes ? request->latency_ns : 0, .after_ns = goes ? request->latency_ns : 0,
            .kept_forward_bytes = row->kept_forward_bytes, .kept_weight_bytes = row->kept_weight_bytes,
            .rank = rank,
        };
        problem->grows |= order_stage_growth(stage) > 0;
        problem->stage_of[rank * problem->chunks + s / problem->ranks] = s;
        problem->step_ns[rank] += row->step_ns;
        for (int kind = 0; kind < 3; kind++)
            problem->work_ns[rank] += problem->micro_batches * stage->cost_ns[kind];
    }
}

// The first F of a rank starts as soon as the ranks before it allow, since nothing else can run before.
static void fill_heads(struct order_problem *problem)
{
    uint64_t moment = 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const struct order_stage *stage = &problem->stage[s];
        moment += stage->before_ns;
        problem->head_ns[stage->rank] = moment;
        problem->offset_ns[stage->rank] = problem->request->objective == OBJECTIVE_SPAN ? moment : 0;
        moment += stage->cost_ns[MOVE_F];
    }
}

// The bytes that a micro-batch needs besides what it keeps, after its F on `chunk`, if each W comes right after its
// I. It needs them to go forward through the later chunks and back. When those have freed what they kept, it needs
// them for its I's on the earlier chunks.
static uint64_t reserve_after(const struct order_problem *problem, uint32_t rank, uint32_t chunk)
{
    uint64_t reserve = order_stage_growth(&problem->stage[problem_stage(problem, rank, chunk)]), kept = 0, freed = 0;
    for (uint32_t later = chunk + 1; later < problem->chunks; later++) {
        const struct order_stage *stage = &problem->stage[problem_stage(problem, rank, later)];
        kept += stage->kept_forward_bytes;
        reserve = max_u64(reserve, kept + order_stage_growth(stage));
    }
    for (uint32_t earlier = chunk; earlier-- > 0;) {
        freed += problem->stage[problem_stage(problem, rank, earlier + 1)].kept_forward_bytes;
        const uint64_t growth = order_stage_growth(&problem->stage[problem_stage(problem, rank, earlier)]);
        reserve = growth > freed ? max_u64(reserve, growth - freed) : reserve;
    }
    return reserve;
}

// The room of a rank for its micro-batches. An F leaves as much free as its micro-batch needs to finish. Otherwise a
// micro-batch could wait for room that only waiting micro-batches could free.
static bool fill_room(struct order_problem *problem, uint32_t rank, struct error *error)
{
    const struct order_request *request = problem->request;
    const uint64_t memory = request->rank_memory_bytes ? request->rank_memory_bytes[rank] : request->memory_bytes;
    uint64_t fixed = 0, transient = 0;
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {
        const uint32_t s = problem_stage(problem, rank, chunk);
        const struct cost_row *row = &request->costs[s];
        fixed += row->fixed_bytes;
        transient = row->transient_bytes > transient ? row->transient_bytes : transient;
        problem->stage[s].reserve_bytes = reserve_after(problem, rank, chunk);
    }
    const struct order_stage *first = &problem->stage[problem_stage(problem, rank, 0)];
    const uint64_t least = first->kept_forward_bytes + first->reserve_bytes;
    if (!memory) {
        problem->room_bytes[rank] = UINT64_MAX / 2;
        return true;
    }
    if (memory >= fixed + transient + least) {
        problem->room_bytes[rank] = memory - fixed - transient;
        return true;
    }
    return error_set_kind(error, ERROR_ANSWER,
                          "rank %u needs %llu bytes for one micro-batch (%llu fixed, %llu of workspace, %llu kept), "
                          "and has %llu", rank, (unsigned long long)(fixed + transient + least),
                          (unsigned long long)fixed, (unsigned long long)transient, (unsigned long long)least,
                          (unsigned long long)memory);
}

static bool allocate_problem(struct order_problem *problem, struct error *error)
{
    const size_t p = problem->ranks, stages = problem->stages;
    problem->stage = arrays_add(&problem->arrays, stages, sizeof *problem->stage);
    problem->stage_of = arrays_add(&problem->arrays, stages, sizeof *problem->stage_of);
    problem->room_bytes = arrays_add(&problem->arrays, p, sizeof *problem->room_bytes);
    problem->work_ns = arrays_add(&problem->arrays, p, sizeof *problem->work_ns);
    problem->step_ns = arrays_add(&problem->arrays, p, sizeof *problem->step_ns);
    problem->head_ns = arrays_add(&problem->arrays, p, sizeof *problem->head_ns);
    problem->offset_ns = arrays_add(&problem->arrays, p, sizeof *problem->offset_ns);
    return !problem->arrays.failed || error_no_memory(error, "the search for an order");
}

bool order_problem_create(struct order_problem *problem, const struct order_request *request, struct error *error)
{
    *problem = (struct order_problem){ .request = request, .ranks = request->ranks, .chunks = request->chunks,
                                       .stages = request->ranks * request->chunks,
                                       .micro_batches = request->micro_batches,
                                       .moves = 3 * request->chunks * request->micro_batches };
    bool good = refuse_request(request, error) && costs_are_possible(request, error)
             && allocate_problem(problem, error);
    if (good) {
        fill_stages(problem);
        fill_heads(problem);
    }
    for (uint32_t rank = 0; good && rank < problem->ranks; rank++)
        good = fill_room(problem, rank, error);
    if (!good)
        order_problem_clear(problem);
    return good;
}

void order_problem_clear(struct order_problem *problem)
{
    arrays_clear(&problem->arrays);
    *problem = (struct order_problem){ 0 };
}

// --- the clock ------------------------------------------------------------------

bool order_clock_create(struct order_clock *clock, const struct order_problem *problem, struct error *error)
{
    const size_t units = (size_t)problem->stages * problem->micro_batches;
    *clock = (struct order_clock){ .problem = problem };
    clock->f_arrived = arrays_add(&clock->arrays, units, sizeof *clock->f_arrived);
    clock->i_arrived = arrays_add(&clock->arrays, units, sizeof *clock->i_arrived);
    clock->done = arrays_add(&clock->arrays, (size_t)problem->stages * 3, sizeof *clock->done);
    clock->at = arrays_add(&clock->arrays, problem->ranks, sizeof *clock->at);
    clock->free_ns = arrays_add(&clock->arrays, problem->ranks, sizeof *clock->free_ns);
    if (!clock->arrays.failed)
        return true;
    order_clock_clear(clock);
    return error_no_memory(error, "the times of an order");
}

void order_clock_clear(struct order_clock *clock)
{
    arrays_clear(&clock->arrays);
    *clock = (struct order_clock){ 0 };
}

void order_clock_reset(struct order_clock *clock)
{
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches, units = problem->stages * m;
    memset(clock->f_arrived, 0, m * sizeof *clock->f_arrived);
    memset(clock->f_arrived + m, 0xff, (units - m) * sizeof *clock->f_arrived);
    memset(clock->i_arrived, 0xff, units * sizeof *clock->i_arrived);
    memset(clock->done, 0, (size_t)problem->stages * 3 * sizeof *clock->done);
    memset(clock->at, 0, problem->ranks * sizeof *clock->at);
    memset(clock->free_ns, 0, problem->ranks * sizeof *clock->free_ns);
}

uint32_t order_clock_give(struct order_clock *clock, uint32_t stage, enum move_kind kind, uint32_t micro_batch,
                          uint64_t end_ns)
{
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches;
    if (kind == MOVE_F && stage + 1 < problem->stages) {
        clock->f_arrived[(stage + 1) * m + micro_batch] = end_ns + problem->stage[stage].after_ns;
        return stage + 1;
    }
    if (kind == MOVE_F) {
        clock->i_arrived[stage * m + micro_batch] = end_ns;
        return stage;
    }
    if (kind == MOVE_I && stage > 0) {
        clock->i_arrived[(stage - 1) * m + micro_batch] = end_ns + problem->stage[stage].before_ns;
        return stage - 1;
    }
    return UINT32_MAX;
}

uint64_t order_clock_result(const struct order_clock *clock)
{
    const struct order_problem *problem = clock->problem;
    uint64_t worst = 0;
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        const uint64_t end = clock->free_ns[rank] + problem->step_ns[rank] - problem->offset_ns[rank];
        worst = end > worst ? end : worst;
    }
    return worst;
}

// Advances a rank until it waits for a message or is done. Returns the number of moves that it made.
static uint32_t advance_rank(struct order_clock *clock, const order_move *moves, uint32_t rank)
{
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches;
    const uint32_t before = clock->at[rank];
    for (; clock->at[rank] < problem->moves; clock->at[rank]++) {
        const order_move move = moves[clock->at[rank]];
        const uint32_t stage = problem_stage(problem, rank, move / 3u);
        const enum move_kind kind = (enum move_kind)(move % 3u);
        uint32_t *done = &clock->done[stage * 3];
        const uint64_t *arrived = kind == MOVE_F ? clock->f_arrived : clock->i_arrived;
        const uint64_t ready = kind == MOVE_W ? 0 : arrived[stage * m + done[kind]];
        if (ready == NEVER_NS || (kind == MOVE_W && done[MOVE_W] == done[MOVE_I]))
            break;
        const uint64_t start = ready > clock->free_ns[rank] ? ready : clock->free_ns[rank];
        clock->free_ns[rank] = start + problem->stage[stage].cost_ns[kind];
        if (clock->ends_ns)
            clock->ends_ns[(size_t)rank * problem->moves + clock->at[rank]] = clock->free_ns[rank];
        order_clock_give(clock, stage, kind, done[kind]++, clock->free_ns[rank]);
    }
    return clock->at[rank] - before;
}

// Whether what a rank keeps always fits into its room.
static bool rank_fits(const struct order_problem *problem, const order_move *moves, uint32_t rank)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < problem->moves; i++) {
        const struct order_stage *stage = &problem->stage[problem_stage(problem, rank, moves[i] / 3u)];
        switch (moves[i] % 3u) {
        case MOVE_F:
            used += stage->kept_forward_bytes;
            break;
        case MOVE_I:
            used -= stage->kept_forward_bytes - stage->kept_weight_bytes;
            break;
        default:
            used -= stage->kept_weight_bytes;
        }
        if (used > problem->room_bytes[rank])
            return false;
    }
    return true;
}

uint64_t order_time(struct order_clock *clock, const order_move *order)
{
    const struct order_problem *problem = clock->problem;
    uint32_t moved;
    order_clock_reset(clock);
    do {  // down the ranks and up again, as micro-batches pass
        moved = 0;
        for (uint32_t rank = 0; rank < problem->ranks; rank++)
            moved += advance_rank(clock, order + (size_t)rank * problem->moves, rank);
        for (uint32_t rank = problem->ranks; rank-- > 0;)
            moved += advance_rank(clock, order + (size_t)rank * problem->moves, rank);
    } while (moved);
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        if (clock->at[rank] < problem->moves || !rank_fits(problem, order + (size_t)rank * problem->moves, rank))
            return NEVER_NS;
    }
    return order_clock_result(clock);
}

// --- the schedule -----------------------------------------------------------------

// If ranks step without waiting for each other, the next iteration of a stage checks its step before its first
// backward.
static bool add_validation(const struct order_problem *problem, uint32_t stage, struct schedule *schedule,
                           struct error *error)
{
    const struct action validate = { .stage = (uint16_t)stage, .kind = ACTION_VALIDATE, .micro_batch = NO_MICRO_BATCH };
    return problem->request->objective != OBJECTIVE_SPAN
        || schedule_add(schedule, problem->stage[stage].rank, validate, error);
}

static bool add_rank(const struct order_problem *problem, const order_move *moves, uint32_t rank,
                     struct schedule *schedule, uint32_t *done, struct error *error)
{
    static const uint8_t kinds[] = { [MOVE_F] = ACTION_F, [MOVE_I] = ACTION_I, [MOVE_W] = ACTION_W };
    for (uint32_t i = 0; i < problem->moves; i++) {
        const uint32_t stage = problem_stage(problem, rank, moves[i] / 3u), kind = moves[i] % 3u;
        if (kind == MOVE_I && done[stage * 3 + kind] == 0 && !add_validation(problem, stage, schedule, error))
            return false;
        const struct action action = { .stage = (uint16_t)stage, .kind = kinds[kind],
                                       .micro_batch = done[stage * 3 + kind]++ };
        if (!schedule_add(schedule, rank, action, error))
            return false;
    }
    for (uint32_t chunk = 0; chunk < problem->chunks; chunk++) {
        const struct action step = { .stage = (uint16_t)problem_stage(problem, rank, chunk), .kind = ACTION_STEP,
                                     .micro_batch = NO_MICRO_BATCH };
        if (!schedule_add(schedule, rank, step, error))
            return false;
    }
    return true;
}

struct schedule *order_schedule(const struct order_problem *problem, const order_move *order, struct error *error)
{
    struct schedule *schedule = schedule_create("search", WEIGHTS_FLUSH, problem->ranks, problem->stages,
                                                problem->micro_batches, error);
    uint32_t *done = calloc((size_t)problem->stages * 3, sizeof *done);
    bool good = schedule && (done || error_no_memory(error, "a schedule"));
    for (uint32_t stage = 0; good && stage < problem->stages; stage++)
        schedule->routes[stage] = problem->stage[stage].rank;
    for (uint32_t rank = 0; good && rank < problem->ranks; rank++)
        good = add_rank(problem, order + (size_t)rank * problem->moves, rank, schedule, done, error);
    if (good) {
        schedule->costs = malloc(problem->stages * sizeof *schedule->costs);
        good = schedule->costs != NULL || error_no_memory(error, "a schedule");
    }
    free(done);
    if (!good) {
        schedule_free(schedule);
        return NULL;
    }
    memcpy(schedule->costs, problem->request->costs, problem->stages * sizeof *schedule->costs);
    return schedule;
}
