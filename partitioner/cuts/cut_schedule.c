// The facts that a search reads from its schedule: how often ranks do each action, which rank chooses for which, and
// whether bounds are known for the order.
#include <stdlib.h>
#include <string.h>

#include "partitioner/cost/predict.h"
#include "partitioner/cuts/cut_parts.h"
#include "partitioner/search/search_request.h"
#include "schedules/lower.h"

static void count_work(struct cut_schedule *schedule, uint32_t rank)
{
    const struct action_list *list = &schedule->order->lists[rank];
    for (uint32_t i = schedule->placement->stage_at[rank]; i < schedule->placement->stage_at[rank + 1]; i++) {
        struct rank_work *work = &schedule->work_of[i];
        work->stage = schedule->placement->held[i];
        for (const struct action *action = list->at; action < list_end(list); action++) {
            if (action->stage != work->stage || action->split > 0)
                continue;
            work->forwards += action->kind == ACTION_F;
            work->backwards += action->kind == ACTION_B;
            work->inputs += action->kind == ACTION_I;
            work->weights += action->kind == ACTION_W;
        }
    }
}

static bool hold_the_same(const struct placement *placement, uint32_t a, uint32_t b)
{
    const uint32_t count = placement->stage_at[a + 1] - placement->stage_at[a];
    return count == placement->stage_at[b + 1] - placement->stage_at[b]
        && memcmp(&placement->held[placement->stage_at[a]], &placement->held[placement->stage_at[b]],
                  count * sizeof placement->held[0]) == 0;
}

// Copies of a stage recompute the same layers, so what one rank chooses holds for all ranks with its stages.
static bool find_leaders(struct cut_schedule *schedule, struct error *error)
{
    const struct placement *placement = schedule->placement;
    for (uint32_t r = 0; r < placement->ranks; r++) {
        // Ranks with the same stages are adjacent, or there are few stages.
        schedule->leader[r] = r > 0 && hold_the_same(placement, r - 1, r) ? schedule->leader[r - 1] : 0;
        while (!hold_the_same(placement, schedule->leader[r], r))
            schedule->leader[r]++;
    }
    for (uint32_t s = 0; s < placement->stages; s++)
        for (uint32_t copy = 1; copy < placement_copies(placement, s); copy++)
            if (schedule->leader[placement_rank(placement, s, copy)]
                != schedule->leader[placement_rank(placement, s, 0)])
                return error_set(error, "the copies of stage %u of %s have different neighbours on their ranks; such"
                                 " schedules cannot be planned", s, schedule->order->name);
    return true;
}

static void see_kind(struct cut_schedule *schedule)
{
    const struct placement *placement = schedule->placement;
    schedule->is_alone = true;
    schedule->is_whole = schedule->order->splits == 1;
    for (uint32_t r = 0; r < placement->ranks; r++)
        schedule->is_alone &= placement->stage_at[r + 1] - placement->stage_at[r] == 1;
    for (uint32_t i = 0; i < placement->stage_at[placement->ranks]; i++) {
        const struct rank_work *work = &schedule->work_of[i];
        struct rank_work *busiest = &schedule->work_of[schedule->busiest[work->stage]];
        schedule->is_whole &= work->backwards > 0 && work->inputs == 0 && work->weights == 0;
        if (busiest->stage != work->stage || work->forwards > busiest->forwards)
            schedule->busiest[work->stage] = i;
    }
}

bool cut_schedule_create(struct cut_problem *problem, struct error *error)
{
    const struct search_request *request = problem->request;
    struct cut_schedule *schedule = &problem->schedule;
    schedule->order = search_order(request, request->micro_batches, error);
    schedule->placement = schedule->order ? placement_read(schedule->order, error) : NULL;
    if (!schedule->placement)
        return false;
    problem->stages = schedule->order->stages;
    problem->ranks = schedule->order->ranks;
    if (request->layout.variants && request->layout.stages != problem->stages)
        return error_set(error, "variants are given for %u stages, but %s has %u on %u ranks", request->layout.stages,
                         request->schedule, problem->stages, problem->ranks);
    schedule->flushes = schedule->order->weights == WEIGHTS_FLUSH;
    const uint32_t held = schedule->placement->stage_at[problem->ranks];
    schedule->work_of = arrays_add(&problem->arrays, held, sizeof schedule->work_of[0]);
    schedule->leader = arrays_add(&problem->arrays, problem->ranks, sizeof schedule->leader[0]);
    schedule->busiest = arrays_add(&problem->arrays, problem->stages, sizeof schedule->busiest[0]);
    if (problem->arrays.failed)
        return error_no_memory(error, "a search");
    for (uint32_t r = 0; r < problem->ranks; r++)
        count_work(schedule, r);
    see_kind(schedule);
    if (!find_leaders(schedule, error))
        return false;
    schedule->lowered = schedule->flushes ? schedule_lower(schedule->order, error) : NULL;
    if (schedule->flushes)
        schedule->slots = schedule->lowered ? predict_slots_in(schedule->lowered, error) : NULL;
    else
        schedule->slots = search_slots(request, error);
    return schedule->slots != NULL;
}

// --- the pattern of an order --------------------------------------------------------------

static bool has_same_order(const struct cut_problem *problem, uint32_t micro_batches, bool *same, struct error *error)
{
    const struct pattern *pattern = &problem->schedule.pattern;
    struct pattern longer = { 0 };
    struct schedule *order = search_order(problem->request, micro_batches, error);
    const bool good = order && pattern_read(order, &longer, error);
    *same = good && longer.is_known && memcmp(longer.warm, pattern->warm, pattern->ranks * sizeof longer.warm[0]) == 0;
    pattern_clear(&longer);
    schedule_free(order);
    return good;
}

// The bounds of an asynchronous run hold if it goes on as it began. An update that takes time between its
// micro-batches is on none of the paths of these bounds.
bool cut_schedule_read_pattern(struct cut_problem *problem, struct error *error)
{
    const uint32_t m = problem->request->micro_batches;
    struct cut_schedule *schedule = &problem->schedule;
    struct pattern *pattern = &schedule->pattern;
    bool same[2];
    if (!pattern_read(schedule->order, pattern, error))
        return false;
    pattern->is_known &= !problem->request->layout.replicas;
    if (schedule->flushes || !pattern->is_known)
        return true;
    if (!has_same_order(problem, 2 * m, &same[0], error) || !has_same_order(problem, 3 * m, &same[1], error))
        return false;
    pattern->is_known = same[0] && same[1] && problem->devices.links_unshared
                     && storage_is_plain(&problem->request->storage) && pattern_continue(pattern);
    return true;
}

void cut_schedule_clear(struct cut_schedule *schedule)
{
    pattern_clear(&schedule->pattern);
    schedule_free(schedule->order);
    schedule_free(schedule->lowered);
    placement_free(schedule->placement);
    free(schedule->slots);
}
