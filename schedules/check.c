#include "schedules/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedules/checking.h"
#include "schedules/versions.h"

// --- faults -------------------------------------------------------------------

// --- what one rank's list can break --------------------------------------------

static void check_lists(struct check *check)
{
    for (uint32_t rank = 0; rank < check->schedule->ranks; rank++) {
        const struct action_list *list = &check->schedule->lists[rank];
        char reason[REASON_SIZE];
        for (size_t i = 0; i < list->count; i++) {
            const bool begins_group = list->at[i].joined && (i == 0 || !list->at[i - 1].joined);
            if (begins_group && !group_fits(&list->at[i], group_size(&list->at[i], list_end(list)), reason))
                check_add_fault(check, rank, i, list->at[i], "%s", reason);
            if (!board_place(&check->board, rank, list->at[i], reason))
                check_add_fault(check, rank, i, list->at[i], "%s", reason);
        }
    }
}

// --- what is missing ------------------------------------------------------------

enum missing { MISSING_F, MISSING_B, MISSING_W, MISSING_SEND_F, MISSING_RECV_F, MISSING_SEND_B, MISSING_RECV_B,
               MISSINGS };

static const uint8_t missing_kind[MISSINGS] = { ACTION_F,      ACTION_B,      ACTION_W,     ACTION_SEND_F,
                                                ACTION_RECV_F, ACTION_SEND_B, ACTION_RECV_B };

enum { FORWARD_ONLY = 1 << MISSING_F | 1 << MISSING_SEND_F | 1 << MISSING_RECV_F };

// What a unit is missing, as bits 1 << enum missing.
static unsigned missing_of(const struct check *check, struct action action)
{
    const struct schedule *schedule = check->schedule;
    const unsigned unit = check->board.units[unit_of(schedule, action)];
    unsigned missing = 0;
    missing |= !(unit & DID_F) ? 1u << MISSING_F : 0;
    missing |= !(unit & DID_BACKWARD) ? 1u << MISSING_B : 0;
    missing |= (unit & DID_BACKWARD) && !(unit & DID_W) ? 1u << MISSING_W : 0;
    if (!schedule->lowered)
        return missing;
    if (crosses_after(schedule, action.stage, action.micro_batch)) {
        missing |= !(unit & 1u << ACTION_SEND_F) ? 1u << MISSING_SEND_F : 0;
        missing |= !(unit & 1u << ACTION_RECV_B) ? 1u << MISSING_RECV_B : 0;
    }
    if (crosses_before(schedule, action.stage, action.micro_batch)) {
        missing |= !(unit & 1u << ACTION_RECV_F) ? 1u << MISSING_RECV_F : 0;
        missing |= !(unit & 1u << ACTION_SEND_B) ? 1u << MISSING_SEND_B : 0;
    }
    return missing;
}

static void add_missing(struct check *check, struct action first, uint32_t count)
{
    const uint32_t rank = schedule_rank(check->schedule, first.stage, first.micro_batch);
    if (count == 1)
        check_add_fault(check, rank, SIZE_MAX, first, "it is missing");
    else
        check_add_fault(check, rank, SIZE_MAX, first, "it is missing, and so are %u more of its kind on this stage",
                        count - 1);
}

// Adds one fault per stage and kind. It names the first unit, and says how many more there are.
static void check_stage_is_complete(struct check *check, uint32_t stage, unsigned wanted)
{
    struct action first[MISSINGS], action = { .stage = (uint16_t)stage };
    uint32_t count[MISSINGS] = { 0 };
    const uint32_t splits = check->schedule->splits;
    for (uint32_t unit = 0; unit < check->schedule->micro_batches * splits; unit++) {
        action.micro_batch = unit / splits;
        action.split = unit % splits & 0x7f;
        const unsigned missing = missing_of(check, action) & wanted;
        for (unsigned i = 0; missing && i < MISSINGS; i++) {
            action.kind = missing_kind[i];
            if ((missing >> i & 1) && count[i]++ == 0)
                first[i] = action;
        }
    }
    for (unsigned i = 0; i < MISSINGS; i++) {
        if (count[i] > 0)
            add_missing(check, first[i], count[i]);
    }
}

// A schedule without any backward is inference: only forwards are required.
static void check_complete(struct check *check)
{
    const unsigned wanted = schedule_is_forward_only(check->schedule) ? FORWARD_ONLY : ~0u;
    for (uint32_t stage = 0; stage < check->schedule->stages; stage++)
        check_stage_is_complete(check, stage, wanted);
}

// --- versions ----------------------------------------------------------------------

// With vertical sync, the version that a micro-batch uses at stage 0 is made on every stage. The same number of
// micro-batches must make it there, so every stage needs the same number of copies.
static void check_copies_are_equal(struct check *check)
{
    const struct copies *copies = &check->board.copies;
    const uint32_t want = copies_count(copies, 0);
    for (uint32_t stage = 1; stage < check->schedule->stages; stage++) {
        const struct action step = { .stage = (uint16_t)stage, .kind = ACTION_STEP, .micro_batch = 0 };
        if (copies_count(copies, stage) != want)
            check_add_fault(check, copies->ranks[copies->first[stage]], SIZE_MAX, step,
                            "vertical sync wants as many copies of every stage: stage 0 has %u, stage %u has %u", want,
                            stage, copies_count(copies, stage));
    }
}

// A forward must find the version that it uses. Its backward then finds the same one, since a version lives until
// its last user has ended.
static bool check_versions(struct check *check, struct error *error)
{
    struct versions versions;
    if (!versions_create(&versions, check->schedule, error))
        return false;
    if (check->schedule->weights == WEIGHTS_VERTICAL)
        check_copies_are_equal(check);
    for (uint32_t rank = 0; rank < check->schedule->ranks; rank++) {
        const struct action_list *list = &check->schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (list->at[i].kind == ACTION_F && !versions_ready(&versions, rank, list->at[i]))
                check_add_fault(check, rank, i, list->at[i],
                                "it meets a version of the weights that stage %u has not made yet",
                          (unsigned)list->at[i].stage);
            versions_advance(&versions, rank, list->at[i]);
        }
    }
    versions_clear(&versions);
    return true;
}

// The later checks are meaningful only if every action is in a legal place.
static bool check_all(struct check *check, struct error *error)
{
    check_lists(check);
    check_complete(check);
    if (check->misplaced)
        return true;
    if (!check_steps(check, error) || !check_versions(check, error))
        return false;
    if (check->misplaced)
        return true;
    return check_running(check, error);
}

bool schedule_check_as(const struct schedule *schedule, const struct check_request *request,
                       struct check_result *result, struct error *error)
{
    *result = (struct check_result){ .capacity = CHECK_NEVER };
    struct check check = { .schedule = schedule, .request = request, .result = result };
    bool good = board_create(&check.board, schedule, schedule->lowered, error) && check_all(&check, error);
    board_clear(&check.board);
    if (good && (check.no_memory || result->cycle.failed))
        good = error_no_memory(error, "the faults of a schedule");
    result->ok = good && result->fault_count == 0;
    if (!good)
        check_result_clear(result);
    return good;
}

bool schedule_check(const struct schedule *schedule, uint32_t capacity, struct check_result *result,
                    struct error *error)
{
    return schedule_check_as(schedule, &(struct check_request){ .capacity = capacity }, result, error);
}

void check_result_clear(struct check_result *result)
{
    free(result->faults);
    text_clear(&result->cycle);
    *result = (struct check_result){ .capacity = CHECK_NEVER };
}

// Writes the first fault and the cycle as one sentence, of kind ERROR_ANSWER. Returns false.
static bool refuse(const struct check_result *result, struct error *error)
{
    const struct check_fault *fault = &result->faults[0];
    char action[ACTION_SIZE], place[32] = "";
    if (fault->position != SIZE_MAX)
        snprintf(place, sizeof place, "position %zu, ", fault->position);
    action_format(fault->action, action);
    if (result->cycle.data)
        return error_set_kind(error, ERROR_ANSWER, "rank %u, %s%s: %s (%s)", fault->rank, place, action, fault->reason,
                              result->cycle.data);
    return error_set_kind(error, ERROR_ANSWER, "rank %u, %s%s: %s", fault->rank, place, action, fault->reason);
}

bool schedule_runs(const struct schedule *schedule, const struct check_request *request, bool *grouped,
                   struct error *error)
{
    struct check_result result;
    if (!schedule_check_as(schedule, request, &result, error))
        return false;
    const bool runs = result.ok || refuse(&result, error);
    if (grouped)
        *grouped = result.grouped;
    check_result_clear(&result);
    return runs;
}

bool schedule_can_run(const struct schedule *schedule, struct error *error)
{
    const struct check_request buffered = { .capacity = CHECK_NEVER - 1 }, in_groups = { .grouped = true };
    bool grouped = false;
    struct error why = { 0 };
    if (schedule_runs(schedule, &buffered, &grouped, &why)
        || (grouped && schedule_runs(schedule, &in_groups, NULL, &why)))
        return true;
    if (why.kind == ERROR_MACHINE)
        return error_hand_on(error, &why);
    return error_set(error, "cannot run: %s; `weir check` says all that is wrong", why.text);
}
