#include "partitioner/cuts/cut_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/predict.h"

bool cut_state_create(struct cut_state *state, const struct cut_problem *problem, struct error *error)
{
    const size_t stages = problem->stages;
    *state = (struct cut_state){ .value_ns = NO_TIME, .most_lacking = UINT64_MAX, .all_lacking = UINT64_MAX };
    state->cuts = calloc(stages + 1, sizeof state->cuts[0]);
    state->of = calloc(stages, sizeof state->of[0]);
    state->lacks_bytes = calloc(problem->ranks, sizeof state->lacks_bytes[0]);
    return (state->cuts && state->of && state->lacks_bytes) || error_no_memory(error, "a search");
}

void cut_state_clear(struct cut_state *state)
{
    free(state->cuts);
    free(state->of);
    free(state->lacks_bytes);
    *state = (struct cut_state){ 0 };
}

void cut_state_copy(struct cut_state *to, const struct cut_state *from, const struct cut_problem *problem)
{
    memcpy(to->cuts, from->cuts, (problem->stages + (size_t)1) * sizeof to->cuts[0]);
    cut_state_copy_all_but_cuts(to, from, problem);
}

void cut_state_copy_all_but_cuts(struct cut_state *to, const struct cut_state *from, const struct cut_problem *problem)
{
    const struct cut_state kept = *to;
    memcpy(kept.of, from->of, problem->stages * sizeof kept.of[0]);
    memcpy(kept.lacks_bytes, from->lacks_bytes, problem->ranks * sizeof kept.lacks_bytes[0]);
    *to = *from;
    to->cuts = kept.cuts;
    to->of = kept.of;
    to->lacks_bytes = kept.lacks_bytes;
}

bool cut_state_is_better(const struct cut_state *a, const struct cut_state *b)
{
    if (a->most_lacking != b->most_lacking)
        return a->most_lacking < b->most_lacking;
    if (a->most_lacking > 0)
        return a->all_lacking < b->all_lacking;
    return a->value_ns < b->value_ns;
}

bool cut_state_is_before(const struct cut_state *a, const struct cut_state *b, uint32_t stages)
{
    for (uint32_t s = 1; s < stages; s++)
        if (a->cuts[s] != b->cuts[s])
            return a->cuts[s] < b->cuts[s];
    return false;
}

// --- time ---------------------------------------------------------------------------------

// Adds the time that a stage's activations take to the host and back, and that by which tied layers apart lengthen
// its STEP.
static void add_to_rows(struct cut_problem *problem, const struct cut_state *state)
{
    const struct search_request *request = problem->request;
    struct cost_row *rows = problem->clock.rows;
    for (uint32_t s = 0; request->storage.activations_on_host && s < problem->stages; s++)
        rows[s].move_ns = storage_move_ns(&problem->devices.places[s], state->of[s].away.moved_bytes);
    if (!request->storage.tied_apart || !problem->places->is_chain)
        return;
    uint32_t *layers = malloc((problem->stages + (size_t)1) * sizeof layers[0]);
    const struct profile **profiles = malloc(problem->stages * sizeof(const struct profile *));
    for (uint32_t s = 0; layers && s <= problem->stages; s++)
        layers[s] = places_size(problem->places, state->cuts[s]);
    for (uint32_t s = 0; profiles && s < problem->stages; s++)
        profiles[s] = problem->views[problem->view_of[s]].profile;
    if (layers && profiles)
        predict_add_tied(profiles, &request->storage, problem->schedule.placement, problem->devices.network, layers,
                         rows);
    free(profiles);
    free(layers);
}

// The work of the busiest rank: no iteration with a flush is shorter.
static uint64_t quick_bound(const struct cut_problem *problem)
{
    const struct cut_schedule *schedule = &problem->schedule;
    const struct placement *placement = schedule->placement;
    const struct cost_row *rows = problem->clock.rows;
    uint64_t longest = 0;
    if (!schedule->flushes)
        return 0;
    for (uint32_t r = 0; r < problem->ranks; r++) {
        uint64_t busy = 0;
        for (uint32_t i = placement->stage_at[r]; i < placement->stage_at[r + 1]; i++) {
            const struct rank_work *work = &schedule->work_of[i];
            const struct cost_row *row = &rows[work->stage];
            busy += work->forwards * row->forward_ns + work->backwards * (row->backward_ns + row->recompute_ns)
                    + work->inputs * (row->backward_input_ns + row->recompute_ns)
                    + work->weights * row->backward_weight_ns;
        }
        longest = busy > longest ? busy : longest;
    }
    return longest;
}

uint64_t cut_state_time(struct cut_problem *problem, const struct cut_state *state, uint64_t limit_ns)
{
    struct cut_clock *clock = &problem->clock;
    for (uint32_t s = 0; s < problem->stages; s++)
        clock->rows[s] = cut_row(problem, s, state->cuts[s], state->cuts[s + 1], state->of[s].recompute_ns);
    add_to_rows(problem, state);
    problem->context->work += 1 + problem->stages / 8;
    if (quick_bound(problem) >= limit_ns)
        return NO_TIME;
    problem->context->work += clock->actions / 160;
    uint64_t value = simulator_iteration_ns(clock->simulators[0], clock->rows);
    if (clock->simulators[1])
        value -= simulator_iteration_ns(clock->simulators[1], clock->rows);
    return value < limit_ns ? value : NO_TIME;
}

// --- memory -------------------------------------------------------------------------------

uint64_t cut_state_host_lacks(const struct cut_problem *problem, const struct cut_state *state)
{
    const struct cluster *cluster = problem->request->cluster;
    const struct placement *placement = problem->schedule.placement;
    const struct cut_devices *devices = &problem->devices;
    if (!storage_uses_host(&problem->request->storage))
        return 0;
    uint64_t most = 0;
    for (size_t machine = 0; machine <= storage_machine(cluster, cluster->device_count - 1); machine++) {
        uint64_t bytes = 0;
        for (uint32_t r = 0; r < problem->ranks; r++)
            for (uint32_t device = devices->group_at[r]; device < devices->group_at[r + 1]; device++)
                for (uint32_t i = placement->stage_at[r]; i < placement->stage_at[r + 1]; i++)
                    if (storage_machine(cluster, devices->group[device]) == machine)
                        bytes = add_clamped(bytes, state->of[placement->held[i]].away.host_bytes);
        const uint64_t lacks = bytes > cluster->host_memory_bytes ? bytes - cluster->host_memory_bytes : 0;
        most = lacks > most ? lacks : most;
    }
    return most;
}

static bool holds_any(const struct cut_problem *problem, uint32_t rank, uint32_t from, uint32_t to)
{
    const struct placement *placement = problem->schedule.placement;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++)
        if (from <= placement->held[i] && placement->held[i] < to)
            return true;
    return false;
}

// Whether stages [from, to) take the limit or more even with the least that they can recompute. That is known long
// before what they do recompute. It is only asked if a shorter stage never makes a longer iteration.
static bool is_too_long(struct cut_problem *problem, struct cut_state *state, uint32_t from, uint32_t to,
                        uint64_t limit_ns)
{
    bool is_open = false;
    if (limit_ns == NO_TIME || !problem->is_monotone || !problem->schedule.is_alone
        || problem->request->storage.activations_on_host)
        return false;
    for (uint32_t s = from; s < to; s++) {
        const uint32_t *cuts = &state->cuts[s];
        const struct stage_price *price = stage_table_get(&problem->narrow, problem->alike[s], cuts[0], cuts[1]);
        if (price && price->has_choices) {
            state->of[s].recompute_ns = price->fits ? price->choices[0].forward_ns : NO_TIME;
        } else {
            state->of[s].recompute_ns = stage_price_floor(problem, s, cuts[0], cuts[1]);
            is_open |= state->of[s].recompute_ns > 0 || !problem->places->is_chain;
        }
        if (state->of[s].recompute_ns == NO_TIME)
            return true;
    }
    return is_open && cut_state_time(problem, state, limit_ns) == NO_TIME;
}

bool cut_state_complete(struct cut_problem *problem, struct cut_state *state, uint32_t from, uint32_t to,
                        uint64_t limit_ns, struct error *error)
{
    state->is_exact = false;
    state->most_lacking = state->all_lacking = 0;
    if (is_too_long(problem, state, from, to, limit_ns)) {
        state->value_ns = NO_TIME;
        return true;
    }
    for (uint32_t r = 0; r < problem->ranks; r++) {
        if (problem->schedule.leader[r] == r && holds_any(problem, r, from, to)
            && !cut_state_choose(problem, state, r, error))
            return false;
        if (state->lacks_bytes[r] > state->most_lacking)
            state->most_lacking = state->lacks_bytes[r];
        state->all_lacking = add_clamped(state->all_lacking, state->lacks_bytes[r]);
    }
    state->host_lacks = cut_state_host_lacks(problem, state);
    if (state->host_lacks > state->most_lacking)
        state->most_lacking = state->host_lacks;
    state->all_lacking = add_clamped(state->all_lacking, state->host_lacks);
    state->value_ns = state->most_lacking == 0 ? cut_state_time(problem, state, limit_ns) : NO_TIME;
    return true;
}
