#include "runtime/ranks/weight_plan.h"

#include <stdlib.h>

#include "schedules/versions.h"

uint32_t schedule_samples(const struct schedule *schedule)
{
    if (schedule->weights == WEIGHTS_FLUSH)
        return schedule->micro_batches;
    const struct action_list *list = &schedule->lists[schedule->routes[0]];
    uint32_t parts = 0;
    for (size_t i = 0; i < list->count && !(list->at[i].stage == 0 && list->at[i].kind == ACTION_STEP); i++)
        parts += list->at[i].stage == 0 && action_adds_gradient(list->at[i]);
    return parts >= schedule->splits ? parts / schedule->splits : 1;
}

// The index of a rank's copy among the copies of all stages.
static uint32_t place_of(const struct weight_plan *plan, uint32_t stage, uint32_t rank)
{
    return plan->placement->copy_at[stage] + placement_find(plan->placement, stage, rank);
}

static size_t copy_count(const struct weight_plan *plan)
{
    return plan->placement->copy_at[plan->schedule->stages];
}

static bool allocate(struct weight_plan *plan, struct error *error)
{
    plan->met = calloc(unit_count(plan->schedule) + 1, sizeof *plan->met);
    plan->updates = calloc(copy_count(plan) + 1, sizeof *plan->updates);
    plan->first = calloc(copy_count(plan) + 1, sizeof *plan->first);
    return (plan->met && plan->updates && plan->first) || error_no_memory(error, "the weight versions of a schedule");
}

// Counts the STEPs of each copy, and so finds where its users begin.
static bool count_updates(struct weight_plan *plan, struct error *error)
{
    const struct schedule *schedule = plan->schedule;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const struct action action = list->at[i];
            plan->has_backward |= action.kind == ACTION_B || action.kind == ACTION_I;
            if (action.kind == ACTION_STEP)
                plan->updates[place_of(plan, action.stage, rank)]++;
        }
    }
    for (size_t copy = 0; copy < copy_count(plan); copy++)
        plan->first[copy + 1] = plan->first[copy] + plan->updates[copy] + 1;
    plan->users = calloc(plan->first[copy_count(plan)] + 1, sizeof *plan->users);
    return plan->users || error_no_memory(error, "the weight versions of a schedule");
}

static bool meet(struct weight_plan *plan, const struct versions *versions, uint32_t rank, struct action forward,
                 struct error *error)
{
    const uint32_t place = place_of(plan, forward.stage, rank);
    const uint32_t version = versions_met(versions, forward);
    char name[ACTION_SIZE];
    if (version == NO_VERSION || version > plan->updates[place])
        return error_set_kind(error, ERROR_ANSWER, "rank %u: %s meets a version of the weights that is never made",
                              rank, action_format(forward, name));
    plan->met[unit_of(plan->schedule, forward)] = version;
    plan->users[plan->first[place] + version]++;
    return true;
}

static bool meet_all(struct weight_plan *plan, struct error *error)
{
    struct versions versions;
    if (!versions_create(&versions, plan->schedule, error))
        return false;
    bool good = true;
    for (uint32_t rank = 0; good && rank < plan->schedule->ranks; rank++) {
        const struct action_list *list = &plan->schedule->lists[rank];
        for (size_t i = 0; good && i < list->count; i++)
            good = list->at[i].kind != ACTION_F || meet(plan, &versions, rank, list->at[i], error);
    }
    versions_clear(&versions);
    return good;
}

bool weight_plan_open(struct weight_plan *plan, const struct schedule *schedule, const struct placement *placement,
                      struct error *error)
{
    *plan = (struct weight_plan){ .schedule = schedule, .placement = placement,
                                  .samples = schedule_samples(schedule) };
    if (allocate(plan, error) && count_updates(plan, error) && meet_all(plan, error))
        return true;
    weight_plan_close(plan);
    return false;
}

void weight_plan_keep_for_absent(struct weight_plan *plan, const struct collectives *collectives)
{
    for (uint32_t rank = 0; rank < collectives->rank_count; rank++) {
        const struct rank_collectives *rank_collectives = &collectives->ranks[rank];
        for (size_t i = 0; i < rank_collectives->absence_count; i++) {
            const struct absence *absence = &rank_collectives->absences[i];
            const struct action action = collectives->stages[absence->stage].at[absence->collective].action;
            if (action.kind == ACTION_F)
                plan->users[plan->first[place_of(plan, action.stage, rank)]
                            + plan->met[unit_of(plan->schedule, action)]]++;
        }
    }
}

void weight_plan_close(struct weight_plan *plan)
{
    free(plan->met);
    free(plan->updates);
    free(plan->first);
    free(plan->users);
    *plan = (struct weight_plan){ 0 };
}

uint64_t weight_plan_version(const struct weight_plan *plan, uint64_t passes, struct action action)
{
    const uint32_t rank = schedule_rank(plan->schedule, action.stage, action.micro_batch);
    return passes * plan->updates[place_of(plan, action.stage, rank)]
         + plan->met[unit_of(plan->schedule, action)];
}

const uint32_t *weight_plan_users(const struct weight_plan *plan, uint32_t stage, uint32_t rank)
{
    return &plan->users[plan->first[place_of(plan, stage, rank)]];
}
