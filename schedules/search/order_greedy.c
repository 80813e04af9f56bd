#include "schedules/search/order_greedy.h"

#include <stdlib.h>
#include <string.h>

bool order_greedy_create(struct order_greedy *greedy, const struct order_problem *problem, struct error *error)
{
    *greedy = (struct order_greedy){ 0 };
    if (!order_clock_create(&greedy->clock, problem, error))
        return false;
    greedy->wake_ns = calloc(problem->ranks, sizeof *greedy->wake_ns);
    greedy->used_bytes = calloc(problem->ranks, sizeof *greedy->used_bytes);
    greedy->followed = calloc(problem->ranks, sizeof *greedy->followed);
    if (greedy->wake_ns && greedy->used_bytes && greedy->followed)
        return true;
    order_greedy_clear(greedy);
    return error_no_memory(error, "an order");
}

void order_greedy_clear(struct order_greedy *greedy)
{
    order_clock_clear(&greedy->clock);
    free(greedy->wake_ns);
    free(greedy->used_bytes);
    free(greedy->followed);
    *greedy = (struct order_greedy){ 0 };
}

// --- what a rank can do ----------------------------------------------------------

enum { NO_CHUNK = UINT32_MAX };

struct outlook {
    uint32_t forward, backward, weight;  // chunk of the best F, I, W that can run now, or NO_CHUNK
    uint64_t next_ns;           // when the next known input that is useful arrives; NEVER_NS
    uint64_t next_backward_ns;  // the same for inputs of an I
    bool cramped;               // an F or I is ready except for room that a W would free
};

struct question {
    const struct order_problem *problem;
    const struct order_rules *rules;
    struct order_greedy *greedy;
    uint32_t rank;
    uint64_t now_ns;
};

// Whether the rules allow the rank to begin another micro-batch on its first stage.
static bool may_begin(const struct question *question)
{
    const uint32_t *done = &question->greedy->clock.done[problem_stage(question->problem, question->rank, 0) * 3];
    return done[MOVE_I] > 0 || !question->rules->ahead || done[MOVE_F] < question->rules->ahead[question->rank];
}

// Whether the F or I is the next one in the order that is followed; true if none is followed.
static bool may_follow(const struct question *question, uint32_t chunk, enum move_kind kind)
{
    const order_move *follow = question->rules->follow;
    if (!follow)
        return true;
    const uint32_t moves = question->problem->moves;
    uint32_t *followed = &question->greedy->followed[question->rank];
    while (*followed < moves && follow[(size_t)question->rank * moves + *followed] % 3u == MOVE_W)
        ++*followed;
    return *followed < moves && follow[(size_t)question->rank * moves + *followed] == 3 * chunk + kind;
}

static void look_forward(const struct question *question, uint32_t chunk, struct outlook *outlook)
{
    const struct order_problem *problem = question->problem;
    const uint32_t s = problem_stage(problem, question->rank, chunk), m = problem->micro_batches;
    const struct order_stage *stage = &problem->stage[s];
    const uint32_t i = question->greedy->clock.done[s * 3 + MOVE_F];
    const uint64_t arrived = i < m ? question->greedy->clock.f_arrived[(size_t)s * m + i] : NEVER_NS;
    if (arrived == NEVER_NS || (chunk == 0 && !may_begin(question)) || !may_follow(question, chunk, MOVE_F))
        return;
    const uint64_t needed = question->greedy->used_bytes[question->rank] + stage->kept_forward_bytes
                          + (question->rules->follow ? 0 : stage->reserve_bytes);
    if (needed > question->problem->room_bytes[question->rank])
        outlook->cramped |= arrived <= question->now_ns;
    else if (arrived <= question->now_ns)
        outlook->forward = chunk;  // the latest stage, since it frees its room soonest
    else if (arrived < outlook->next_ns)
        outlook->next_ns = arrived;
}

// Considers a W that can run: the chunk with most outstanding W's is preferred.
static void look_weight(const struct question *question, uint32_t chunk, struct outlook *outlook)
{
    const uint32_t *all = question->greedy->clock.done;
    const uint32_t *done = &all[problem_stage(question->problem, question->rank, chunk) * 3];
    uint32_t behind = 0;
    if (outlook->weight != NO_CHUNK) {
        const uint32_t *best = &all[problem_stage(question->problem, question->rank, outlook->weight) * 3];
        behind = best[MOVE_I] - best[MOVE_W];
    }
    if (done[MOVE_I] - done[MOVE_W] > behind)
        outlook->weight = chunk;
}

static void look_backward(const struct question *question, uint32_t chunk, struct outlook *outlook)
{
    const uint32_t s = problem_stage(question->problem, question->rank, chunk), m = question->problem->micro_batches;
    const uint32_t *done = &question->greedy->clock.done[s * 3];
    const uint64_t arrived =
        done[MOVE_I] < done[MOVE_F] ? question->greedy->clock.i_arrived[(size_t)s * m + done[MOVE_I]] : NEVER_NS;
    if (arrived == NEVER_NS || !may_follow(question, chunk, MOVE_I))
        return;
    const struct order_stage *stage = &question->problem->stage[s];
    const uint64_t needed = question->greedy->used_bytes[question->rank] + order_stage_growth(stage);
    if (arrived <= question->now_ns && needed > question->problem->room_bytes[question->rank]) {
        outlook->cramped = true;  // until a W frees room
        return;
    }
    if (arrived <= question->now_ns) {
        if (outlook->backward == NO_CHUNK || question->rules->late_backward)
            outlook->backward = chunk;
        return;
    }
    outlook->next_ns = arrived < outlook->next_ns ? arrived : outlook->next_ns;
    outlook->next_backward_ns = arrived < outlook->next_backward_ns ? arrived : outlook->next_backward_ns;
}

// --- the choice -----------------------------------------------------------------------

struct choice {
    bool waits;
    uint64_t until_ns;  // the time until which it waits
    uint32_t chunk;
    enum move_kind kind;
};

static uint64_t cost_of(const struct question *question, uint32_t chunk, enum move_kind kind)
{
    return question->problem->stage[problem_stage(question->problem, question->rank, chunk)].cost_ns[kind];
}

static struct choice choose(const struct question *question)
{
    const struct order_rules *rules = question->rules;
    struct outlook outlook = { NO_CHUNK, NO_CHUNK, NO_CHUNK, NEVER_NS, NEVER_NS, false };
    for (uint32_t chunk = 0; chunk < question->problem->chunks; chunk++) {
        look_forward(question, chunk, &outlook);
        look_backward(question, chunk, &outlook);
        look_weight(question, chunk, &outlook);
    }
    if (outlook.backward != NO_CHUNK && (outlook.forward == NO_CHUNK || !rules->forward_first))
        return (struct choice){ .chunk = outlook.backward, .kind = MOVE_I };
    if (outlook.forward != NO_CHUNK) {
        const uint64_t f = cost_of(question, outlook.forward, MOVE_F);
        const bool hold = outlook.next_backward_ns != NEVER_NS
                       && outlook.next_backward_ns - question->now_ns < f * rules->foresight / 4;
        if (!hold)
            return (struct choice){ .chunk = outlook.forward, .kind = MOVE_F };
        outlook.next_ns = outlook.next_backward_ns;
    }
    if (outlook.weight != NO_CHUNK) {
        const uint64_t w = cost_of(question, outlook.weight, MOVE_W);
        if (outlook.next_ns == NEVER_NS || (outlook.cramped && outlook.next_backward_ns == NEVER_NS)
            || outlook.next_ns + w * rules->patience / 4 >= question->now_ns + w)
            return (struct choice){ .chunk = outlook.weight, .kind = MOVE_W };
    }
    return (struct choice){ .waits = true, .until_ns = outlook.next_ns };
}

static void account(struct order_greedy *greedy, const struct order_stage *stage, enum move_kind kind)
{
    uint64_t *used = &greedy->used_bytes[stage->rank];
    if (kind == MOVE_F)
        *used += stage->kept_forward_bytes;
    else if (kind == MOVE_I)
        *used -= stage->kept_forward_bytes - stage->kept_weight_bytes;
    else
        *used -= stage->kept_weight_bytes;
}

static void do_move(const struct question *question, struct choice choice, order_move *order)
{
    const struct order_problem *problem = question->problem;
    struct order_clock *clock = &question->greedy->clock;
    const uint32_t rank = question->rank, s = problem_stage(problem, rank, choice.chunk);
    const uint64_t end = question->now_ns + problem->stage[s].cost_ns[choice.kind];
    order[(size_t)rank * problem->moves + clock->at[rank]++] = (order_move)(3 * choice.chunk + choice.kind);
    account(question->greedy, &problem->stage[s], choice.kind);
    question->greedy->followed[rank] += choice.kind != MOVE_W;
    clock->free_ns[rank] = end;
    question->greedy->wake_ns[rank] = clock->at[rank] < problem->moves ? end : NEVER_NS;
    const uint32_t i = clock->done[s * 3 + choice.kind]++;
    const uint32_t to = order_clock_give(clock, s, choice.kind, i, end);
    if (to == UINT32_MAX)
        return;
    const uint32_t other = problem->stage[to].rank;
    const uint64_t *arrivals = choice.kind == MOVE_F && to != s ? clock->f_arrived : clock->i_arrived;
    const uint64_t arrived = arrivals[(size_t)to * problem->micro_batches + i];
    const uint64_t from = arrived > clock->free_ns[other] ? arrived : clock->free_ns[other];
    if (clock->at[other] < problem->moves && from < question->greedy->wake_ns[other])
        question->greedy->wake_ns[other] = from;
}

static uint32_t first_awake(const struct order_greedy *greedy, uint32_t ranks)
{
    uint32_t first = 0;
    for (uint32_t rank = 1; rank < ranks; rank++) {
        if (greedy->wake_ns[rank] < greedy->wake_ns[first])
            first = rank;
    }
    return first;
}

uint64_t order_greedy_run(struct order_greedy *greedy, const struct order_rules *rules, order_move *order)
{
    const struct order_problem *problem = greedy->clock.problem;
    const uint64_t all = (uint64_t)problem->ranks * problem->moves;
    order_clock_reset(&greedy->clock);
    memset(greedy->used_bytes, 0, problem->ranks * sizeof *greedy->used_bytes);
    memset(greedy->followed, 0, problem->ranks * sizeof *greedy->followed);
    memset(greedy->wake_ns, 0xff, problem->ranks * sizeof *greedy->wake_ns);  // NEVER_NS
    greedy->wake_ns[problem->stage[0].rank] = 0;
    for (uint64_t made = 0; made < all;) {
        const uint32_t rank = first_awake(greedy, problem->ranks);
        const struct question question = { problem, rules, greedy, rank, greedy->wake_ns[rank] };
        if (question.now_ns == NEVER_NS)
            return NEVER_NS;
        const struct choice choice = choose(&question);
        if (choice.waits) {
            greedy->wake_ns[rank] = choice.until_ns;
            continue;
        }
        do_move(&question, choice, order);
        made++;
    }
    return order_clock_result(&greedy->clock);
}
