// What no decision can beat, whatever the order. Two kinds of paths:
//
//     the way in    F of the stages before, of one micro-batch
//     the work      all that a rank does for its stages, one after the other
//     the way out   I or B of the stages before: only where nothing but B ends a rank's work
//
// From a single stage: way in + its work + way out, the least over all cuts of the
// largest over the stages; layers that no cut can part are felt here.
//
// From all ranks: T is at least way in + work (+ way out) of each, and so at least any
// average of these with weights w_r. An average counts layer l so often as the stage
// it is on says; at least as often as the stage where it counts least:
//
//     sum of w_r T  >=  sum over layers of F_l min_s a_s + B_l min_s b_s + ...
//
// (each a_s over the speed of the devices of s) with a_s = sum over ranks of w_r (how often r does F of s, and 1 more
// where s lies before all stages of r). Even weights know of the work, weights that fall towards the first ranks also
// of the fill and drain.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/coupled/crew_links.h"
#include "schedules/generators/generate.h"

typedef unsigned __int128 wide;

static uint64_t fastest(const struct coupled *coupled)
{
    uint64_t speed = 0;
    for (uint32_t s = 0; s < coupled->stages; s++)
        speed = coupled->speed[s] > speed ? coupled->speed[s] : speed;
    return speed;
}

// Whether whole backwards, and nothing else, end a rank's work.
static bool is_whole(const struct coupled *coupled)
{
    for (uint32_t at = 0; at < coupled->placement->stage_at[coupled->ranks]; at++)
        if (!coupled->work_of[at].backwards || coupled->work_of[at].inputs || coupled->work_of[at].weights)
            return false;
    return coupled->order->splits == 1;
}

static wide least(wide a, wide b)
{
    return a < b ? a : b;
}

// How often each kind of work on stage s counts, given the ranks' weights.
static void count_stage(const struct coupled *coupled, const uint64_t *weights, uint32_t s, wide counts[4])
{
    const struct placement *placement = coupled->placement;
    const bool whole = is_whole(coupled);
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1]; at++) {
            const struct coupled_work *work = &coupled->work_of[at];
            if (work->stage != s)
                continue;
            counts[0] += (wide)weights[r] * work->forwards;
            counts[1] += (wide)weights[r] * work->backwards;
            counts[2] += (wide)weights[r] * work->inputs;
            counts[3] += (wide)weights[r] * work->weights;
        }
        if (s < placement->held[placement->stage_at[r]] && coupled->order->splits == 1) {
            counts[0] += weights[r];
            counts[1] += whole ? weights[r] : 0;
        }
    }
}

static uint64_t average_bound(const struct coupled *coupled, const uint64_t *weights)
{
    wide counts[4] = { ~(wide)0, ~(wide)0, ~(wide)0, ~(wide)0 }, all = 0, weight = 0;
    for (uint32_t s = 0; s < coupled->stages; s++) {
        wide own[4] = { 0 };
        count_stage(coupled, weights, s, own);
        for (unsigned i = 0; i < 4; i++)
            counts[i] = least(counts[i], own[i] * 1000 / coupled->speed[s]);
    }
    for (unsigned i = 0; i < 4; i++)
        all += counts[i] * coupled->least[i][coupled->layers];
    for (uint32_t r = 0; r < coupled->ranks; r++)
        weight += weights[r];
    const wide bound = all / weight;
    return bound > UINT64_MAX / 4 ? 0 : (uint64_t)bound;
}

// Weights that are even, and that grow by m / (m - 1) with every stage a rank's first
// one is further in.
static bool bound_from_ranks(const struct coupled *coupled, uint64_t *bound, struct error *error)
{
    uint64_t *weights = calloc(coupled->ranks, sizeof weights[0]);
    if (!weights)
        return error_no_memory(error, "a search");
    const uint64_t m = coupled->request->micro_batches;
    for (unsigned falling = 0; falling < 2; falling++) {
        for (uint32_t r = 0; r < coupled->ranks; r++) {
            weights[r] = 1 << 20;
            const uint32_t first = coupled->placement->held[coupled->placement->stage_at[r]];
            for (uint32_t s = first; falling && s + 1 < coupled->stages && m > 1; s++)
                weights[r] = weights[r] * (m - 1) / m;
            weights[r] += weights[r] == 0;
        }
        const uint64_t own = average_bound(coupled, weights);
        *bound = own > *bound ? own : *bound;
    }
    free(weights);
    return true;
}

// The bound of a stage alone on its busiest rank.
static uint64_t stage_bound(const struct coupled *coupled, const uint32_t *busiest, uint32_t s, uint32_t first,
                            uint32_t end, bool whole, uint64_t speed)
{
    uint64_t way = 0;
    if (coupled->order->splits == 1)
        way = coupled->least[0][first] + (whole ? coupled->least[1][first] : 0);
    const wide scaled = (wide)way * 1000 / speed;
    return (uint64_t)scaled + coupled_busy_ns(coupled, busiest[s], first, end, 0);
}

// A dynamic program over the cuts: the least of the largest.
static bool bound_from_stages(const struct coupled *coupled, uint64_t *bound, struct error *error)
{
    const uint32_t layers = coupled->layers, stages = coupled->stages;
    uint64_t *least_of = malloc(((size_t)layers + 1) * sizeof least_of[0]);
    uint32_t *busiest = calloc(stages, sizeof busiest[0]);
    const bool good = least_of && busiest, whole = is_whole(coupled);
    const uint64_t speed = fastest(coupled);
    for (uint32_t at = 0; good && at < coupled->placement->stage_at[coupled->ranks]; at++) {
        const uint32_t s = coupled->work_of[at].stage;
        if (coupled->work_of[busiest[s]].stage != s || coupled->work_of[at].forwards > coupled->work_of[busiest[s]].forwards)
            busiest[s] = at;
    }
    for (uint32_t l = 0; good && l <= layers; l++)
        least_of[l] = l == 0 ? 0 : UINT64_MAX;
    for (uint32_t s = 0; good && s < stages; s++) {
        for (uint32_t end = layers + 1; end-- > 0;) {
            uint64_t best = UINT64_MAX;
            for (uint32_t first = end; first-- > 0 && coupled->can_cut[end];) {
                if (least_of[first] == UINT64_MAX)
                    continue;
                const uint64_t own = stage_bound(coupled, busiest, s, first, end, whole, speed);
                const uint64_t most = own > least_of[first] ? own : least_of[first];
                best = most < best ? most : best;
            }
            least_of[end] = best;
        }
    }
    if (good && least_of[layers] != UINT64_MAX && least_of[layers] > *bound)
        *bound = least_of[layers];
    free(least_of);
    free(busiest);
    return good || error_no_memory(error, "a search");
}

bool coupled_work_bound(const struct coupled *coupled, uint64_t *bound, struct error *error)
{
    *bound = 0;
    return !coupled->flushes || bound_from_ranks(coupled, bound, error);
}

// Schedules without a flush whose updates are one for each micro-batch of a rank.
static bool bound_of_crews(const struct coupled *coupled, uint64_t *bound, struct error *error)
{
    struct crewed_stage *stages = calloc(coupled->stages, sizeof stages[0]);
    if (!stages)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < coupled->stages; s++) {
        const struct intervals *intervals = coupled->intervals[s];
        stages[s] = (struct crewed_stage){
            .forward = intervals->forward, .backward = intervals->backward, .weights = intervals->weights,
            .speed_permille = coupled->speed[s], .copies = placement_copies(coupled->placement, s),
        };
    }
    const struct crews crews = { stages, coupled->stages, coupled->layers, coupled->request->micro_batches,
                                 coupled->intervals[0]->cut, coupled->can_cut, &coupled->request->holding };
    const bool good =
        crew_see_links(&crews, stages, coupled->network, error) && crew_bound(&crews, bound, error);
    free(stages);
    return good;
}

bool coupled_bound(const struct coupled *coupled, uint64_t *bound, struct error *error)
{
    *bound = 0;
    if (coupled->flushes)
        return bound_from_ranks(coupled, bound, error) && bound_from_stages(coupled, bound, error);
    return !coupled->generator->takes_replicas || bound_of_crews(coupled, bound, error);
}
