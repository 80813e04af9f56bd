// Stages that have several ranks each, called *replicas*, which get micro-batches in turns:
//
//     replicas 2, 1, 3       stage     0      1      2
//                            ranks    0 1     2    3 4 5       micro-batch i goes to rank i mod 2 of stage 0,
//                                                              to rank 2, to rank 3 + i mod 3
//
// After a number of micro-batches, the least common multiple of the numbers of ranks, all stages begin again with
// their first rank. This is the number of routes.
#include "schedules/generators/generators.h"

static uint32_t count_of(const struct generate_request *request, uint32_t stage)
{
    return request->replicas ? request->replicas[stage] : 1;
}

// The number of micro-batches after which all stages begin again with their first rank, or the number of all
// micro-batches.
static uint32_t routes_needed(const struct generate_request *request)
{
    uint64_t turns = 1;
    for (uint32_t stage = 0; stage < request->stages && turns < request->micro_batches; stage++)
        turns *= request->replicas[stage] / greatest_common(turns, request->replicas[stage]);
    return turns < request->micro_batches ? (uint32_t)turns : request->micro_batches;
}

static bool fits(const char *name, const struct generate_request *request, struct error *error)
{
    uint64_t ranks = 0;
    uint32_t most = 0;
    if (request->chunks != 1)
        return error_set(error, "%s has one stage per rank: chunks must be 1, not %u", name, request->chunks);
    for (uint32_t stage = 0; stage < request->stages; stage++) {
        if (request->replicas[stage] == 0)
            return error_set(error, "stage %u needs one rank or more, not 0", stage);
        ranks += request->replicas[stage];
        most = request->replicas[stage] > most ? request->replicas[stage] : most;
    }
    if (ranks != request->ranks)
        return error_set(error, "the replicas of the %u stages take %llu ranks, not %u", request->stages,
                         (unsigned long long)ranks, request->ranks);
    if (request->micro_batches < most)
        return error_set(error, "micro-batches must be %u or more, one for each replica of a stage, not %u", most,
                         request->micro_batches);
    if (routes_needed(request) > SCHEDULE_MOST_ROUTES)
        return error_set(error,
                         "these replicas need %u routes, and a schedule can have %d: use numbers of replicas that "
                         "divide each other",
                         routes_needed(request), SCHEDULE_MOST_ROUTES);
    return true;
}

static bool lay_routes(struct schedule *schedule, const struct generate_request *request, struct error *error)
{
    const uint32_t count = routes_needed(request);
    if (!generate_routes(schedule, count, error))
        return false;
    for (uint32_t route = 0; route < count; route++) {
        uint32_t first = 0;
        for (uint32_t stage = 0; stage < request->stages; first += request->replicas[stage++])
            schedule->routes[(size_t)route * request->stages + stage] = first + route % request->replicas[stage];
    }
    for (uint32_t i = 0; i < request->micro_batches; i++)
        schedule->route_of[i] = i % count;
    return true;
}

static struct schedule *begin(const char *name, enum weights weights, const struct generate_request *request,
                              struct error *error)
{
    if (!request->replicas)
        return generate_one_stage_per_rank(name, weights, request, error);
    if (!fits(name, request, error))
        return NULL;
    struct schedule *schedule =
        schedule_create(name, weights, request->ranks, request->stages, request->micro_batches, error);
    return generate_done(schedule, schedule && lay_routes(schedule, request, error));
}

static struct replicas replicas_of(const struct generate_request *request, uint32_t stage, uint32_t first)
{
    const uint32_t count = count_of(request, stage);
    return (struct replicas){ .stage = stage, .first = first, .count = count,
                              .ahead = (request->ranks - first + count - 1) / count };
}

static uint32_t most_in_flight(const struct generate_request *request, uint32_t stages)
{
    uint32_t most = 0;
    for (uint32_t stage = 0, first = 0; stage < stages; first += count_of(request, stage++)) {
        const struct replicas replicas = replicas_of(request, stage, first);
        most = replicas.ahead * replicas.count > most ? replicas.ahead * replicas.count : most;
    }
    return most;
}

struct schedule *generate_replicas(const char *name, enum weights weights, const struct generate_request *request,
                                   add_replica add_rank, struct error *error)
{
    struct schedule *schedule = begin(name, weights, request, error);
    const uint32_t most = schedule ? most_in_flight(request, schedule->stages) : 0;
    bool good = schedule != NULL;
    for (uint32_t stage = 0, first = 0; good && stage < schedule->stages; first += count_of(request, stage++)) {
        struct replicas replicas = replicas_of(request, stage, first);
        replicas.most_in_flight = most;
        for (uint32_t number = 0; good && number < replicas.count; number++)
            good = add_rank(schedule, &replicas, number, error);
    }
    return generate_done(schedule, good);
}

uint32_t replicas_share(const struct replicas *replicas, uint32_t number, uint32_t micro_batches)
{
    return micro_batches / replicas->count + (number < micro_batches % replicas->count);
}

bool replicas_add(struct schedule *schedule, const struct replicas *replicas, uint32_t number, enum action_kind kind,
                  uint32_t i, struct error *error)
{
    return generate_add(schedule, replicas->first + number, kind, replicas->stage, i * replicas->count + number, error);
}

bool replicas_add_step(struct schedule *schedule, const struct replicas *replicas, uint32_t number,
                       struct error *error)
{
    const uint32_t rank = replicas->first + number;
    return (replicas->count == 1 || generate_add(schedule, rank, ACTION_REDUCE, replicas->stage, NO_MICRO_BATCH, error))
        && generate_add(schedule, rank, ACTION_STEP, replicas->stage, NO_MICRO_BATCH, error);
}
