#include "schedules/versions.h"

#include <string.h>

static uint32_t *version_at(const struct versions *versions, uint32_t stage, uint32_t micro_batch)
{
    return &versions->version_of[(size_t)stage * versions->schedule->micro_batches + micro_batch];
}

// The copy of a stage's weights that a rank holds.
static uint32_t copy_of(const struct versions *versions, uint32_t rank, struct action action)
{
    const struct schedule *schedule = versions->schedule;
    if (!has_unit(action))
        return copies_find(&versions->copies, action.stage, rank);
    return versions->copies.of_route[(size_t)schedule->route_of[action.micro_batch] * schedule->stages + action.stage];
}

// Whether the action is the last use of a stage's weights by a micro-batch.
static bool ends_use(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_W;
}

// Finds which updates each copy sees, and from them each unit's version.
static void assign_versions(struct versions *versions)
{
    const struct schedule *schedule = versions->schedule;
    uint32_t *updates = versions->newest;  // first used as counters, and set back to 0 at the end
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const struct action action = list->at[i];
            const uint32_t copy = copy_of(versions, rank, action);
            if (action.kind == ACTION_STEP)
                updates[copy]++;
            else if (action.split == 0
                     && (schedule->weights == WEIGHTS_2BW ? ends_use(action) : action.kind == ACTION_F))
                *version_at(versions, action.stage, action.micro_batch) =
                    updates[copy] - (schedule->weights == WEIGHTS_2BW && updates[copy] > 0);
        }
    }
}

static void spread_from_stage_0(struct versions *versions)
{
    const struct schedule *schedule = versions->schedule;
    const uint32_t *met = version_at(versions, 0, 0);
    for (uint32_t stage = 1; stage < schedule->stages; stage++)
        memcpy(version_at(versions, stage, 0), met, schedule->micro_batches * sizeof *met);
}

static bool count_users(struct versions *versions, struct error *error)
{
    const struct schedule *schedule = versions->schedule;
    const uint32_t copies = versions->copies.first[schedule->stages];
    for (uint32_t copy = 0; copy < copies; copy++)
        versions->first[copy + 1] = versions->first[copy] + versions->newest[copy] + 1;
    versions->users = arrays_add(&versions->arrays, versions->first[copies], sizeof *versions->users);
    if (!versions->users)
        return error_no_memory(error, "the weight versions of a schedule");

    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        for (uint32_t micro_batch = 0; micro_batch < schedule->micro_batches; micro_batch++) {
            const size_t route = schedule->route_of[micro_batch];
            const uint32_t copy = versions->copies.of_route[route * schedule->stages + stage];
            uint32_t *version = version_at(versions, stage, micro_batch);
            if (*version > versions->newest[copy])
                *version = NO_VERSION;
            else
                versions->users[versions->first[copy] + *version] += schedule->splits;
        }
    }
    for (uint32_t copy = 0; copy < copies; copy++)
        versions->newest[copy] = 0;
    return true;
}

bool versions_create(struct versions *versions, const struct schedule *schedule, struct error *error)
{
    *versions = (struct versions){ .schedule = schedule };
    if (schedule->weights == WEIGHTS_FLUSH)
        return true;
    if (!copies_create(&versions->copies, schedule, error))
        return false;
    const uint32_t copies = versions->copies.first[schedule->stages];
    versions->version_of = arrays_add(&versions->arrays, (size_t)schedule->stages * schedule->micro_batches,
                                      sizeof *versions->version_of);
    versions->first = arrays_add(&versions->arrays, copies + (size_t)1, sizeof *versions->first);
    versions->newest = arrays_add(&versions->arrays, copies, sizeof *versions->newest);
    versions->oldest = arrays_add(&versions->arrays, copies, sizeof *versions->oldest);
    if (versions->arrays.failed) {
        versions_clear(versions);
        return error_no_memory(error, "the weight versions of a schedule");
    }
    assign_versions(versions);
    if (schedule->weights == WEIGHTS_VERTICAL)
        spread_from_stage_0(versions);
    if (count_users(versions, error))
        return true;
    versions_clear(versions);
    return false;
}

void versions_clear(struct versions *versions)
{
    copies_clear(&versions->copies);
    arrays_clear(&versions->arrays);
    *versions = (struct versions){ 0 };
}

void versions_advance(struct versions *versions, uint32_t rank, struct action action)
{
    if (!versions->version_of || (action.kind != ACTION_STEP && !ends_use(action)))
        return;
    const uint32_t copy = copy_of(versions, rank, action);
    uint32_t *users = &versions->users[versions->first[copy]];
    if (action.kind == ACTION_STEP) {
        versions->newest[copy]++;
    } else {
        const uint32_t version = versions_met(versions, action);
        if (version != NO_VERSION)
            users[version]--;
    }
    while (versions->oldest[copy] < versions->newest[copy] && users[versions->oldest[copy]] == 0)
        versions->oldest[copy]++;
}

uint32_t versions_alive(const struct versions *versions, uint32_t rank, uint32_t stage)
{
    if (!versions->version_of)
        return 1;
    const uint32_t copy = copies_find(&versions->copies, stage, rank);
    return versions->newest[copy] - versions->oldest[copy] + 1;
}

uint32_t versions_met(const struct versions *versions, struct action forward)
{
    if (!versions->version_of)
        return 0;
    return *version_at(versions, forward.stage, forward.micro_batch);
}

bool versions_ready(const struct versions *versions, uint32_t rank, struct action forward)
{
    if (!versions->version_of)
        return true;
    const uint32_t version = versions_met(versions, forward);
    return version != NO_VERSION && version <= versions->newest[copy_of(versions, rank, forward)];
}
