#include "runtime/twin/updates.h"

#include <stdlib.h>
#include <string.h>

// --- what the schedule's lists say ------------------------------------------------------

// Called for every action of each copy of a stage, in order, with the number of STEPs before it.
typedef bool copy_visitor(struct updates *updates, uint32_t copy, struct action action, uint32_t steps,
                          struct error *error);

static bool visit_copies(struct updates *updates, const struct placement *placement, copy_visitor *visit,
                         struct error *error)
{
    const struct schedule *schedule = updates->schedule;
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        for (uint32_t copy = 0; copy < placement_copies(placement, stage); copy++) {
            const struct action_list *list = &schedule->lists[placement_rank(placement, stage, copy)];
            uint32_t steps = 0;
            for (size_t i = 0; i < list->count; i++) {
                if (list->at[i].stage != stage)
                    continue;
                if (!visit(updates, copy, list->at[i], steps, error))
                    return false;
                steps += list->at[i].kind == ACTION_STEP;
            }
        }
    }
    return true;
}

static bool count_step(struct updates *updates, uint32_t copy, struct action action, uint32_t steps,
                       struct error *error)
{
    struct stage_updates *stage = &updates->stages[action.stage];
    (void)copy;
    (void)error;
    if (action.kind == ACTION_STEP && steps + 1 > stage->count)
        stage->count = steps + 1;
    return true;
}

static bool note_version(struct updates *updates, uint32_t copy, struct action action, uint32_t steps,
                         struct error *error)
{
    const struct schedule *schedule = updates->schedule;
    uint32_t *met = &updates->met[(size_t)action.stage * schedule->micro_batches];
    (void)copy;
    (void)error;
    if (schedule->weights == WEIGHTS_2BW && action_adds_gradient(action))
        met[action.micro_batch] = steps > 0 ? steps - 1 : 0;
    if (schedule->weights == WEIGHTS_STASH && action.kind == ACTION_F)
        met[action.micro_batch] = steps;
    if (schedule->weights == WEIGHTS_VERTICAL && action.kind == ACTION_F && action.stage == 0)
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            met[(size_t)stage * schedule->micro_batches + action.micro_batch] = steps;
    return true;
}

static bool note_gradient(struct updates *updates, uint32_t copy, struct action action, uint32_t steps,
                          struct error *error)
{
    struct stage_updates *stage = &updates->stages[action.stage];
    if (!action_adds_gradient(action) || steps >= stage->count || stage->has_collectives)
        return true;  // belongs to no update, or is noted by note_shared()
    struct update_part *part = &stage->parts[(size_t)steps * stage->sums + copy];
    const bool goes_on = part->parts_left > 0 && part->micro_batches[part->count - 1] == action.micro_batch;
    const uint32_t next = goes_on ? part->parts_left - 1 : updates->schedule->splits - 1;
    if ((part->parts_left > 0 && !goes_on) || action.split != next)
        return error_set(error, "stage %u: the parts of a micro-batch's sequences do not go back one behind the other, "
                         "and there is no twin for that order", action.stage);
    part->parts_left = next;
    if (goes_on)
        return true;
    uint32_t *more = realloc(part->micro_batches, (part->count + 1) * sizeof *more);
    if (!more)
        return error_no_memory(error, "the updates of a schedule");
    part->micro_batches = more;
    part->micro_batches[part->count++] = action.micro_batch;
    return true;
}

// --- gradients that copies shard -------------------------------------------------------------

// How many gradients earlier collectives bring to the same update.
static uint32_t contributed_before(const struct stage_collectives *collectives, size_t collective)
{
    uint32_t count = 0;
    for (size_t m = 0; m < collective; m++)
        if (collectives->at[m].update == collectives->at[collective].update
            && action_adds_gradient(collectives->at[m].action))
            count += collectives->at[m].present_count;
    return count;
}

static uint32_t most_contributed(const struct stage_collectives *collectives)
{
    uint32_t most = 1;
    for (size_t m = 0; m < collectives->count; m++) {
        const uint32_t count = contributed_before(collectives, m) + collectives->at[m].present_count;
        most = action_adds_gradient(collectives->at[m].action) && count > most ? count : most;
    }
    return most;
}

static bool note_shared(struct stage_updates *stage, const struct collective *collective, uint32_t before,
                        uint32_t copy, uint32_t micro_batch, struct error *error)
{
    uint32_t sum = before;
    for (uint32_t c = 0; c < copy; c++)
        sum += collective->present[c];
    struct update_part *part = &stage->parts[(size_t)collective->update * stage->sums + sum];
    *part = (struct update_part){ .micro_batches = malloc(sizeof micro_batch), .count = 1 };
    if (!part->micro_batches) {
        part->count = 0;
        return error_no_memory(error, "the updates of a schedule");
    }
    part->micro_batches[0] = micro_batch;
    return true;
}

static bool note_all_shared(struct updates *updates, const struct placement *placement,
                            const struct collectives *collectives, uint32_t s, struct error *error)
{
    struct stage_updates *stage = &updates->stages[s];
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t rank = placement_rank(placement, s, copy);
        const struct action_list *list = &updates->schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const uint32_t number = collectives->ranks[rank].of[i];
            if (list->at[i].stage != s || number == NO_COLLECTIVE || !action_adds_gradient(list->at[i]))
                continue;
            const struct collective *collective = &collectives->stages[s].at[number];
            if (collective->update < stage->count
                && !note_shared(stage, collective, contributed_before(&collectives->stages[s], number), copy,
                                list->at[i].micro_batch, error))
                return false;
        }
    }
    return true;
}

static bool open_stages(struct updates *updates, const struct placement *placement,
                        const struct collectives *collectives, enum shard shard, struct error *error)
{
    for (uint32_t s = 0; s < updates->schedule->stages; s++) {
        struct stage_updates *stage = &updates->stages[s];
        stage->versions = 1;
        stage->has_collectives = shard >= SHARD_GRADIENTS && collectives->stages[s].count > 0;
        stage->sums = stage->has_collectives ? most_contributed(&collectives->stages[s])
                                             : placement_copies(placement, s);
        stage->parts = calloc((size_t)stage->count * stage->sums + 1, sizeof *stage->parts);
        if (!stage->parts)
            return error_no_memory(error, "the updates of a schedule");
    }
    return true;
}

static bool read_lists(struct updates *updates, const struct placement *placement, enum shard shard,
                       struct error *error)
{
    struct collectives collectives;
    bool good = visit_copies(updates, placement, count_step, error);
    if (!good)
        return false;
    good = collectives_open(&collectives, updates->schedule, placement, shard, error)
        && open_stages(updates, placement, &collectives, shard, error)
        && visit_copies(updates, placement, note_version, error)
        && visit_copies(updates, placement, note_gradient, error);
    for (uint32_t s = 0; good && s < updates->schedule->stages; s++)
        good = !updates->stages[s].has_collectives || note_all_shared(updates, placement, &collectives, s, error);
    collectives_close(&collectives);
    return good;
}

// --- order of the steps ----------------------------------------------------------------------

static bool is_like(const struct stage_updates *a, uint32_t update_a, const struct stage_updates *b, uint32_t update_b)
{
    if (a->sums != b->sums)
        return false;
    for (uint32_t sum = 0; sum < a->sums; sum++) {
        const struct update_part *x = &a->parts[(size_t)update_a * a->sums + sum];
        const struct update_part *y = &b->parts[(size_t)update_b * b->sums + sum];
        if (x->count != y->count
            || (x->count > 0 && memcmp(x->micro_batches, y->micro_batches, x->count * sizeof x->micro_batches[0]) != 0))
            return false;
    }
    return true;
}

// Whether all versions that the micro-batches of an update use, on any stage, have been made.
static bool is_ready(const struct updates *updates, uint32_t stage, uint32_t update, const uint32_t *made)
{
    const struct stage_updates *its = &updates->stages[stage];
    for (size_t p = (size_t)update * its->sums; p < (size_t)(update + 1) * its->sums; p++)
        for (size_t i = 0; i < its->parts[p].count; i++)
            for (uint32_t s = 0; s < updates->schedule->stages; s++)
                if (updates_met(updates, s, its->parts[p].micro_batches[i]) > made[s])
                    return false;
    return true;
}

// The stage that has made the fewest updates, among those that can continue.
static uint32_t choose(const struct updates *updates, const uint32_t *made)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t s = updates->schedule->stages; s-- > 0;)
        if (made[s] < updates->stages[s].count && is_ready(updates, s, made[s], made)
            && (best == UINT32_MAX || made[s] <= made[best]))
            best = s;
    return best;
}

static bool add_step(struct updates *updates, uint32_t stage, uint32_t *made, struct error *error)
{
    const uint32_t stages = updates->schedule->stages, update = made[stage];
    struct update_step *more = realloc(updates->steps, (updates->step_count + 1) * sizeof *more);
    bool *chosen = calloc(stages, sizeof *chosen);
    if (more)
        updates->steps = more;
    if (!more || !chosen) {
        free(chosen);
        return error_no_memory(error, "the updates of a schedule");
    }
    for (uint32_t s = 0; s < stages; s++) {
        chosen[s] = made[s] < updates->stages[s].count
                 && is_like(&updates->stages[stage], update, &updates->stages[s], made[s]);
    }
    for (uint32_t s = 0; s < stages; s++)
        made[s] += chosen[s];
    updates->steps[updates->step_count++] = (struct update_step){ stage, update, chosen };
    return true;
}

static bool all_made(const struct updates *updates, const uint32_t *made)
{
    for (uint32_t s = 0; s < updates->schedule->stages; s++)
        if (made[s] < updates->stages[s].count)
            return false;
    return true;
}

static bool order_steps(struct updates *updates, struct error *error)
{
    uint32_t *made = calloc(updates->schedule->stages, sizeof *made);
    bool good = made || error_no_memory(error, "the updates of a schedule");
    while (good && !all_made(updates, made)) {
        const uint32_t stage = choose(updates, made);
        if (stage == UINT32_MAX)
            good = error_set_kind(error, ERROR_ANSWER, "every update of this schedule needs weights that later updates"
                                  " make");
        else
            good = add_step(updates, stage, made, error);
    }
    free(made);
    return good;
}

// --- how many versions ---------------------------------------------------------------------

// Goes through the steps from the last to the first, and tracks the oldest version that is still needed at each
// point.
static bool count_versions(struct updates *updates, struct error *error)
{
    const uint32_t stages = updates->schedule->stages;
    uint32_t *made = malloc(stages * sizeof *made), *oldest = malloc(stages * sizeof *oldest);
    const bool good = made && oldest;
    for (uint32_t s = 0; good && s < stages; s++)
        made[s] = oldest[s] = updates->stages[s].count;
    for (size_t i = updates->step_count; good && i-- > 0;) {
        const struct update_step *step = &updates->steps[i];
        const struct stage_updates *first = &updates->stages[step->first_stage];
        for (uint32_t s = 0; s < stages; s++) {  // the state when the step has been made
            const uint32_t needed = made[s] - oldest[s] + 1;
            if (needed > updates->stages[s].versions)
                updates->stages[s].versions = needed;
            made[s] -= step->stages[s];
            oldest[s] = made[s] < oldest[s] ? made[s] : oldest[s];
        }
        for (size_t p = (size_t)step->update * first->sums; p < (size_t)(step->update + 1) * first->sums; p++) {
            for (size_t b = 0; b < first->parts[p].count; b++) {
                for (uint32_t s = 0; s < stages; s++) {
                    const uint32_t met = updates_met(updates, s, first->parts[p].micro_batches[b]);
                    oldest[s] = met < oldest[s] ? met : oldest[s];
                }
            }
        }
    }
    free(made);
    free(oldest);
    return good || error_no_memory(error, "the updates of a schedule");
}

// --- making and freeing ----------------------------------------------------------------------

bool updates_open(struct updates *updates, const struct schedule *schedule, enum shard shard, struct error *error)
{
    *updates = (struct updates){ .schedule = schedule };
    updates->met = calloc((size_t)schedule->stages * schedule->micro_batches + 1, sizeof *updates->met);
    updates->stages = calloc(schedule->stages, sizeof *updates->stages);
    bool good = (updates->met && updates->stages) || error_no_memory(error, "the updates of a schedule");
    struct placement *placement = good ? placement_read(schedule, error) : NULL;
    good = placement && read_lists(updates, placement, shard, error) && order_steps(updates, error)
        && count_versions(updates, error);
    placement_free(placement);
    if (!good)
        updates_close(updates);
    return good;
}

void updates_close(struct updates *updates)
{
    for (uint32_t s = 0; updates->stages && s < updates->schedule->stages; s++) {
        struct stage_updates *stage = &updates->stages[s];
        for (size_t p = 0; stage->parts && p < (size_t)stage->count * stage->sums; p++)
            free(stage->parts[p].micro_batches);
        free(stage->parts);
    }
    for (size_t i = 0; i < updates->step_count; i++)
        free(updates->steps[i].stages);
    free(updates->met);
    free(updates->stages);
    free(updates->steps);
    *updates = (struct updates){ 0 };
}
