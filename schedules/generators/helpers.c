#include <stdlib.h>

#include "schedules/board.h"
#include "schedules/generators/generators.h"

struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights,
                                             const struct generate_request *request, struct error *error)
{
    if (request->chunks != 1)
        return error_null(error_set(error, "%s has one stage per rank: chunks must be 1, not %u", name,
                                    request->chunks));
    return schedule_create(name, weights, request->ranks, request->ranks, request->micro_batches, error);
}

struct schedule *generate_looped(const char *name, const struct generate_request *request, const char *instead,
                                 struct error *error)
{
    if (request->chunks < 2) {
        error_set(error, "%s has several stages per rank: chunks must be 2 or more, not %u (%s is for 1)", name,
                  request->chunks, instead);
        return NULL;
    }
    const uint64_t stages = (uint64_t)request->ranks * request->chunks;
    return schedule_create(name, WEIGHTS_FLUSH, request->ranks, stages < UINT32_MAX ? (uint32_t)stages : UINT32_MAX,
                           request->micro_batches, error);
}

struct schedule *generate_v(const char *name, const struct generate_request *request, struct error *error)
{
    if (request->chunks != 2)
        return error_null(error_set(error, "%s has two stages per rank, on a V: chunks must be 2, not %u", name,
                                    request->chunks));
    const uint32_t p = request->ranks;
    struct schedule *schedule = generate_looped(name, request, "", error);
    for (uint32_t rank = 0; schedule && rank < p; rank++)
        schedule->routes[2 * p - 1 - rank] = rank;
    return schedule;
}

bool generate_routes(struct schedule *schedule, uint32_t count, struct error *error)
{
    uint32_t *routes = calloc((size_t)count * schedule->stages, sizeof *routes);
    if (!routes)
        return error_no_memory(error, "the routes of a schedule");
    free(schedule->routes);
    schedule->routes = routes;
    schedule->route_count = count;
    return true;
}

struct schedule *generate_two_ways(const char *name, const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks;
    if (p % 2 != 0) {
        error_set(error, "%s has two pipelines against each other: ranks must be even, such as %u, not %u", name,
                  p + 1, p);
        return NULL;
    }
    struct schedule *schedule = generate_one_stage_per_rank(name, WEIGHTS_FLUSH, request, error);
    if (!schedule || !generate_routes(schedule, 2, error))
        return generate_done(schedule, false);
    for (uint32_t stage = 0; stage < p; stage++) {
        schedule->routes[stage] = stage;
        schedule->routes[p + stage] = p - 1 - stage;
    }
    for (uint32_t i = 0; i < request->micro_batches; i++)
        schedule->route_of[i] = i % 2;
    return schedule;
}

void generate_pairs(struct schedule *schedule)
{
    char reason[REASON_SIZE];
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct action *at = schedule->lists[rank].at;
        for (size_t i = 0; i + 1 < schedule->lists[rank].count; i++)
            if (is_backward(at[i]) && at[i + 1].kind == ACTION_F && !(i > 0 && at[i - 1].joined))
                at[i].joined = group_fits(&at[i], 2, reason);
    }
}

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error)
{
    const struct action action = { .stage = (uint16_t)stage, .kind = (uint8_t)kind, .micro_batch = micro_batch };
    return schedule_add(schedule, rank, action, error);
}

// Whether the rank holds the stage, and how many other ranks hold it.
static bool holds_stage(const struct schedule *schedule, uint32_t rank, uint32_t stage, uint32_t *others)
{
    bool holds = false;
    *others = 0;
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        const uint32_t holder = schedule->routes[(size_t)route * schedule->stages + stage];
        holds |= holder == rank;
        *others += holder != rank;
    }
    return holds;
}

bool generate_add_steps(struct schedule *schedule, uint32_t rank, struct error *error)
{
    bool good = true;
    uint32_t others;
    for (uint32_t stage = 0; good && stage < schedule->stages; stage++) {
        if (holds_stage(schedule, rank, stage, &others))
            good = (others == 0 || generate_add(schedule, rank, ACTION_REDUCE, stage, NO_MICRO_BATCH, error))
                && generate_add(schedule, rank, ACTION_STEP, stage, NO_MICRO_BATCH, error);
    }
    return good;
}

bool generate_by_rules(struct schedule *schedule, const struct greedy_rules *rules, struct error *error)
{
    bool good = greedy_order(schedule, rules, error);
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++)
        good = generate_add_steps(schedule, rank, error);
    return good;
}

// Micro-batches take several routes in turns.
static int64_t in_turns(const void *state, struct action action)
{
    const struct schedule *schedule = state;
    const int64_t stages = schedule->stages, number = action.micro_batch / schedule->route_count;
    const int64_t in_order = stages * number + stages - 1 - action.stage;
    return action.kind == ACTION_F ? in_order : in_order + stages * schedule->micro_batches;
}

static uint32_t ahead_as_in_1f1b(const void *state, uint32_t stage)
{
    const struct schedule *schedule = state;
    return schedule->stages - stage;
}

struct schedule *generate_in_turns(struct schedule *schedule, uint32_t most_kept, struct error *error)
{
    const struct greedy_rules rules = { .most_kept = most_kept, .most_ahead = ahead_as_in_1f1b, .turn = in_turns,
                                        .state = schedule };
    return generate_done(schedule, schedule && generate_by_rules(schedule, &rules, error));
}

struct schedule *generate_ranks(struct schedule *schedule,
                                bool (*add_rank)(struct schedule *schedule, uint32_t rank, struct error *error),
                                struct error *error)
{
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++)
        good = add_rank(schedule, rank, error) && generate_add_steps(schedule, rank, error);
    return generate_done(schedule, good);
}

struct schedule *generate_done(struct schedule *schedule, bool good)
{
    if (good)
        return schedule;
    schedule_free(schedule);
    return NULL;
}
