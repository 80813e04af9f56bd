// PipeDream: 1F1B without a flush. Every backward is followed by an update, so
// the weights of a stage change while micro-batches are between their forward
// and their backward; each keeps the version it began with (weights: stash).
//
//     rank 0   F0 F1 F2 B0 STEP0 F3 B1 STEP1 F4 B2 STEP2 B3 STEP3 B4 STEP4      p = 3, a run of
//     rank 1   F0 F1 B0 STEP0 F2 B1 STEP1 F3 B2 STEP2 F4 B3 STEP3 B4 STEP4      5 micro-batches
//     rank 2   F0 B0 STEP0 F1 B1 STEP1 F2 B2 STEP2 F3 B3 STEP3 F4 B4 STEP4
//
// Rank s has p - s micro-batches in flight, hence p - s versions. The pipeline
// drains once, at the end of the run.
//
// A stage may have several ranks (1F1B-RR). Micro-batches are dealt to them in turns,
// and update t is made from one micro-batch of each:
//
//     replicas 2, 1       stage 0   rank 0   F0 F2 B0 REDUCE0 STEP0 F4 B2 REDUCE1 STEP1 B4 REDUCE2 STEP2
//     5 micro-batches               rank 1   F1 F3 B1 REDUCE0 STEP0    B3 REDUCE1 STEP1    REDUCE2 STEP2
//                         stage 1   rank 2   F0 B0 STEP0 F1 B1 STEP1 F2 B2 STEP2 F3 B3 STEP3 F4 B4 STEP4
//
// A rank of a stage with r ranks has one r-th in flight of as many micro-batches as
// there are ranks from its stage on, rounded up.
#include <stdlib.h>

#include "schedules/generators/generators.h"

enum { MOST_ROUTES = 65536 };

// The ranks of one stage. Micro-batch i of number n among them is i * count + n.
struct crew {
    uint32_t stage;
    uint32_t first, count;
    uint32_t ahead;  // forwards of each before its first backward
};

static bool add_own(struct schedule *schedule, const struct crew *crew, uint32_t number, enum action_kind kind, uint32_t i,
                    struct error *error)
{
    return generate_add(schedule, crew->first + number, kind, crew->stage, i * crew->count + number, error);
}

static bool add_rank(struct schedule *schedule, const struct crew *crew, uint32_t number, struct error *error)
{
    const uint32_t m = schedule->micro_batches, rank = crew->first + number, r = crew->count;
    const uint32_t own = m / r + (number < m % r), updates = (m + r - 1) / r, ahead = least_of(crew->ahead, own);
    bool good = true;
    for (uint32_t i = 0; good && i < ahead; i++)
        good = add_own(schedule, crew, number, ACTION_F, i, error);
    for (uint32_t i = 0; good && i < updates; i++) {
        good = (i >= own || add_own(schedule, crew, number, ACTION_B, i, error))
            && (r == 1 || generate_add(schedule, rank, ACTION_REDUCE, crew->stage, i, error))
            && generate_add(schedule, rank, ACTION_STEP, crew->stage, i, error)
            && (i + ahead >= own || add_own(schedule, crew, number, ACTION_F, i + ahead, error));
    }
    return good;
}

static uint64_t divisor_of(uint64_t a, uint64_t b)
{
    return b == 0 ? a : divisor_of(b, a % b);
}

// After how many micro-batches all stages begin anew with their first rank, or all that there are.
static uint32_t routes_needed(const struct generate_request *request)
{
    uint64_t turns = 1;
    for (uint32_t stage = 0; stage < request->stages && turns < request->micro_batches; stage++)
        turns *= request->replicas[stage] / divisor_of(turns, request->replicas[stage]);
    return turns < request->micro_batches ? (uint32_t)turns : request->micro_batches;
}

static bool fits(const struct generate_request *request, struct error *error)
{
    uint64_t ranks = 0;
    uint32_t most = 0;
    if (request->chunks != 1)
        return error_set(error, "pipedream has one stage per rank: chunks must be 1, not %u", request->chunks);
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
    if (routes_needed(request) > MOST_ROUTES)
        return error_set(error,
                         "these replicas need %u routes, and a schedule can have %d: use numbers of replicas that divide "
                         "each other",
                         routes_needed(request), MOST_ROUTES);
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

static struct schedule *generate_replicated(const struct generate_request *request, struct error *error)
{
    if (!fits(request, error))
        return NULL;
    struct schedule *schedule = schedule_create("pipedream", WEIGHTS_STASH, request->ranks, request->stages,
                                                request->micro_batches, error);
    bool good = schedule && lay_routes(schedule, request, error);
    struct crew crew = { 0 };
    for (uint32_t stage = 0; good && stage < request->stages; stage++, crew.first += crew.count) {
        crew.stage = stage;
        crew.count = request->replicas[stage];
        crew.ahead = (request->ranks - crew.first + crew.count - 1) / crew.count;
        for (uint32_t number = 0; good && number < crew.count; number++)
            good = add_rank(schedule, &crew, number, error);
    }
    return generate_done(schedule, good);
}

struct schedule *generate_pipedream(const struct generate_request *request, struct error *error)
{
    if (request->replicas)
        return generate_replicated(request, error);
    struct schedule *schedule = generate_one_stage_per_rank("pipedream", WEIGHTS_STASH, request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < request->ranks; rank++) {
        const struct crew crew = { .stage = rank, .first = rank, .count = 1, .ahead = request->ranks - rank };
        good = add_rank(schedule, &crew, 0, error);
    }
    return generate_done(schedule, good);
}
