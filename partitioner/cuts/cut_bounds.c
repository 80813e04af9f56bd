// A lower bound that no plan can beat, whatever the order of the layers: the work of the ranks, with fill and drain.
//
//     T  >=  way in + all that a rank does for its stages (+ way out, where nothing but B ends a rank's work)
//
// This holds for each rank, and so for any average of ranks with weights w_r. An average counts a layer l as often as
// its stage says. That is at least as often as on the stage where it counts least:
//
//     sum of w_r T  >=  sum over layers of F_l min_s a_s + B_l min_s b_s + ...
//
// Each a_s is divided by the speed of the devices of s. Before that, a_s = sum over ranks of w_r (how often r does F
// of s, and 1 more if s lies before all stages of r). Even weights capture the work. Weights that fall towards the
// first ranks also capture fill and drain.
#include <stdlib.h>

#include "partitioner/cuts/cut_search.h"

typedef unsigned __int128 wide;

// How often each kind of work on stage s counts, given the ranks' weights.
static void count_stage(const struct cut_problem *problem, const uint64_t *weights, uint32_t s, wide counts[4])
{
    const struct cut_schedule *schedule = &problem->schedule;
    const struct placement *placement = schedule->placement;
    for (uint32_t r = 0; r < problem->ranks; r++) {
        for (uint32_t i = placement->stage_at[r]; i < placement->stage_at[r + 1]; i++) {
            const struct rank_work *work = &schedule->work_of[i];
            if (work->stage != s)
                continue;
            counts[0] += (wide)weights[r] * work->forwards;
            counts[1] += (wide)weights[r] * work->backwards;
            counts[2] += (wide)weights[r] * work->inputs;
            counts[3] += (wide)weights[r] * work->weights;
        }
        if (s < placement->held[placement->stage_at[r]] && schedule->order->splits == 1) {
            counts[0] += weights[r];
            counts[1] += schedule->is_whole ? weights[r] : 0;
        }
    }
}

// The time of all layers for some kind of work, each in the variant in which it takes least.
static uint64_t least_time(const struct cut_problem *problem, unsigned kind)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < problem->places->layers; l++) {
        uint64_t least = UINT64_MAX;
        for (uint32_t v = 0; v < problem->view_count; v++) {
            const struct profile_layer *layer = &problem->views[v].profile->layers[l];
            const uint64_t times[4] = { layer->forward_ns, layer->backward_ns, layer->backward_input_ns,
                                        layer->backward_weight_ns };
            least = times[kind] < least ? times[kind] : least;
        }
        sum += least;
    }
    return sum;
}

static uint64_t average_bound(const struct cut_problem *problem, const uint64_t *weights)
{
    wide counts[4] = { ~(wide)0, ~(wide)0, ~(wide)0, ~(wide)0 }, all = 0, weight = 0;
    for (uint32_t s = 0; s < problem->stages; s++) {
        wide stage_counts[4] = { 0 };
        count_stage(problem, weights, s, stage_counts);
        for (unsigned i = 0; i < 4; i++) {
            const wide scaled = stage_counts[i] * 1000 / problem->devices.speed[s];
            counts[i] = scaled < counts[i] ? scaled : counts[i];
        }
    }
    for (unsigned i = 0; i < 4; i++)
        all += counts[i] * least_time(problem, i);
    for (uint32_t r = 0; r < problem->ranks; r++)
        weight += weights[r];
    const wide bound = all / weight;
    return bound > UINT64_MAX / 4 ? 0 : (uint64_t)bound;
}

// Tries even weights, and weights that grow by m / (m - 1) with every stage that a rank's first stage is further in.
bool cut_root_bound(const struct cut_problem *problem, uint64_t *bound_ns, struct error *error)
{
    const uint64_t m = problem->request->micro_batches;
    *bound_ns = 0;
    if (!problem->schedule.flushes)
        return true;
    uint64_t *weights = calloc(problem->ranks, sizeof weights[0]);
    if (!weights)
        return error_no_memory(error, "a search");
    for (unsigned falling = 0; falling < 2; falling++) {
        for (uint32_t r = 0; r < problem->ranks; r++) {
            const uint32_t first = problem->schedule.placement->held[problem->schedule.placement->stage_at[r]];
            weights[r] = 1 << 20;
            for (uint32_t s = first; falling && s + 1 < problem->stages && m > 1; s++)
                weights[r] = weights[r] * (m - 1) / m;
            weights[r] += weights[r] == 0;
        }
        const uint64_t average = average_bound(problem, weights);
        *bound_ns = average > *bound_ns ? average : *bound_ns;
    }
    free(weights);
    return true;
}
