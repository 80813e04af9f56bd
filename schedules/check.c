#include "schedules/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedules/checking.h"
#include "schedules/versions.h"

// --- faults -------------------------------------------------------------------

void check_add_fault(struct check *check, uint32_t rank, size_t position, struct action action, const char *format, ...)
{
    struct check_result *result = check->result;
    if (result->fault_count == check->capacity) {
        const size_t capacity = check->capacity ? 2 * check->capacity : 8;
        struct check_fault *faults = realloc(result->faults, capacity * sizeof *faults);
        if (!faults) {
            check->no_memory = true;
            return;
        }
        result->faults = faults;
        check->capacity = capacity;
    }
    struct check_fault *fault = &result->faults[result->fault_count++];
    *fault = (struct check_fault){ .rank = rank, .position = position, .action = action };
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->reason, sizeof fault->reason, format, arguments);
    va_end(arguments);
    check->misplaced |= position != SIZE_MAX;
}

// --- what one rank's list can break --------------------------------------------

static void check_lists(struct check *check)
{
    for (uint32_t rank = 0; rank < check->schedule->ranks; rank++) {
        const struct action_list *list = &check->schedule->lists[rank];
        char reason[REASON_SIZE];
        for (size_t i = 0; i < list->count; i++) {
            if (!board_place(&check->board, rank, list->at[i], reason))
                check_add_fault(check, rank, i, list->at[i], "%s", reason);
        }
    }
}

// --- what is missing ------------------------------------------------------------

enum missing { MISSING_F, MISSING_B, MISSING_W, MISSING_SEND_F, MISSING_RECV_F, MISSING_SEND_B, MISSING_RECV_B, MISSINGS };

static const uint8_t missing_kind[MISSINGS] = { ACTION_F,      ACTION_B,      ACTION_W,     ACTION_SEND_F,
                                                ACTION_RECV_F, ACTION_SEND_B, ACTION_RECV_B };

// What this micro-batch lacks on this stage, as bits 1 << enum missing.
static unsigned missing_of(const struct check *check, uint32_t stage, uint32_t micro_batch)
{
    const struct schedule *schedule = check->schedule;
    const unsigned unit = check->board.units[unit_index(schedule, stage, micro_batch)];
    unsigned missing = 0;
    missing |= !(unit & DID_F) ? 1u << MISSING_F : 0;
    missing |= !(unit & DID_BACKWARD) ? 1u << MISSING_B : 0;
    missing |= (unit & DID_BACKWARD) && !(unit & DID_W) ? 1u << MISSING_W : 0;
    if (!schedule->lowered)
        return missing;
    if (crosses_after(schedule, stage, micro_batch)) {
        missing |= !(unit & 1u << ACTION_SEND_F) ? 1u << MISSING_SEND_F : 0;
        missing |= !(unit & 1u << ACTION_RECV_B) ? 1u << MISSING_RECV_B : 0;
    }
    if (crosses_before(schedule, stage, micro_batch)) {
        missing |= !(unit & 1u << ACTION_RECV_F) ? 1u << MISSING_RECV_F : 0;
        missing |= !(unit & 1u << ACTION_SEND_B) ? 1u << MISSING_SEND_B : 0;
    }
    return missing;
}

// One fault per stage and kind: it names the first, and says how many more.
static void check_stage_is_complete(struct check *check, uint32_t stage)
{
    uint32_t first[MISSINGS], count[MISSINGS] = { 0 };
    for (uint32_t micro_batch = 0; micro_batch < check->schedule->micro_batches; micro_batch++) {
        const unsigned missing = missing_of(check, stage, micro_batch);
        for (unsigned i = 0; missing && i < MISSINGS; i++) {
            if ((missing >> i & 1) && count[i]++ == 0)
                first[i] = micro_batch;
        }
    }
    for (unsigned i = 0; i < MISSINGS; i++) {
        if (count[i] == 0)
            continue;
        const struct action action = { .stage = (uint16_t)stage, .kind = missing_kind[i], .micro_batch = first[i] };
        const uint32_t rank = schedule_rank(check->schedule, stage, first[i]);
        if (count[i] == 1)
            check_add_fault(check, rank, SIZE_MAX, action, "it is missing");
        else
            check_add_fault(check, rank, SIZE_MAX, action, "it is missing, and so are %u more of its kind on this stage",
                      count[i] - 1);
    }
}

static void check_complete(struct check *check)
{
    for (uint32_t stage = 0; stage < check->schedule->stages; stage++)
        check_stage_is_complete(check, stage);
}

// --- steps -----------------------------------------------------------------------

// What is known of a stage on the rank that is being walked.
struct stage_steps {
    uint32_t steps;
    uint32_t open;         // micro-batches that had their I and not their W
    size_t last_backward;  // position + 1 of the last B, I or W since the last STEP; 0: none
    bool computes;
    bool reduced;          // gradients have been summed since the last STEP
};

static void check_step(struct check *check, uint32_t rank, size_t position, struct stage_steps *stage)
{
    const struct action action = check->schedule->lists[rank].at[position];
    const bool flush = check->schedule->weights == WEIGHTS_FLUSH;
    if (flush && action.micro_batch != NO_MICRO_BATCH)
        check_add_fault(check, rank, position, action, "the step of a flush has no number");
    else if (flush && stage->steps == 1)
        check_add_fault(check, rank, position, action, "stage %u has had its step", (unsigned)action.stage);
    else if (!flush && action.micro_batch != stage->steps)
        check_add_fault(check, rank, position, action, "update %u of stage %u is due here", stage->steps,
                  (unsigned)action.stage);
    if (stage->open > 0)
        check_add_fault(check, rank, position, action, "it comes between an I and its W on stage %u",
                  (unsigned)action.stage);
    stage->steps++;
    stage->last_backward = 0;
    stage->reduced = false;
}

static void check_against_steps(struct check *check, uint32_t rank, size_t position, struct stage_steps *stage)
{
    const struct action action = check->schedule->lists[rank].at[position];
    if (action.kind == ACTION_STEP) {
        check_step(check, rank, position, stage);
        return;
    }
    if (action.kind == ACTION_REDUCE)
        stage->reduced = true;
    if (action.kind > ACTION_R)
        return;
    stage->computes = true;
    if (check->schedule->weights == WEIGHTS_FLUSH && stage->steps > 0)
        check_add_fault(check, rank, position, action, "it comes after the step of stage %u", (unsigned)action.stage);
    if (action.kind == ACTION_I)
        stage->open++;
    if (action.kind == ACTION_W)
        stage->open--;
    if (action.kind == ACTION_F || action.kind == ACTION_R)
        return;
    stage->last_backward = position + 1;
    if (stage->reduced)
        check_add_fault(check, rank, position, action, "it comes after the REDUCE of stage %u", (unsigned)action.stage);
}

// At the end of a rank's list: gradients that no step uses, and steps that some
// stages have and this one has not. A flush may leave all steps to its user.
static void check_ends(struct check *check, uint32_t rank, const struct stage_steps *stages, bool any_step)
{
    const bool flush = check->schedule->weights == WEIGHTS_FLUSH;
    for (uint32_t stage = 0; stage < check->schedule->stages; stage++) {
        const struct stage_steps *at = &stages[stage];
        const struct action step = { .stage = (uint16_t)stage, .kind = ACTION_STEP,
                                     .micro_batch = flush ? NO_MICRO_BATCH : at->steps };
        if (!at->computes)
            continue;
        if (at->steps == 0 && (any_step || !flush))
            check_add_fault(check, rank, SIZE_MAX, step, "it is missing");
        else if (!flush && at->last_backward > 0)
            check_add_fault(check, rank, at->last_backward - 1,
                      check->schedule->lists[rank].at[at->last_backward - 1], "no STEP comes after it");
    }
}

static bool has_any_step(const struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        for (size_t i = 0; i < schedule->lists[rank].count; i++) {
            if (schedule->lists[rank].at[i].kind == ACTION_STEP)
                return true;
        }
    }
    return false;
}

static bool check_steps(struct check *check, struct error *error)
{
    const struct schedule *schedule = check->schedule;
    struct stage_steps *stages = malloc(schedule->stages * sizeof *stages);
    if (!stages)
        return error_no_memory(error, "checking a schedule");
    const bool any_step = has_any_step(schedule);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            stages[stage] = (struct stage_steps){ 0 };
        for (size_t i = 0; i < list->count; i++)
            check_against_steps(check, rank, i, &stages[list->at[i].stage]);
        check_ends(check, rank, stages, any_step);
    }
    free(stages);
    return true;
}

// A forward must find the version it is to meet. (That its backward finds the same
// one follows: a version lives until its last user has ended.)
static bool check_versions(struct check *check, struct error *error)
{
    struct versions versions;
    if (!versions_create(&versions, check->schedule, error))
        return false;
    for (uint32_t rank = 0; rank < check->schedule->ranks; rank++) {
        const struct action_list *list = &check->schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (list->at[i].kind == ACTION_F && !versions_ready(&versions, rank, list->at[i]))
                check_add_fault(check, rank, i, list->at[i], "it meets a version of the weights that stage %u has not made yet",
                          (unsigned)list->at[i].stage);
            versions_advance(&versions, rank, list->at[i]);
        }
    }
    versions_clear(&versions);
    return true;
}

// Later questions mean something only where every action may stand where it is.
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
