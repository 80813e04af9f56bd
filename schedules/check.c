#include "schedules/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedules/blocking.h"
#include "schedules/lower.h"
#include "schedules/standstill.h"
#include "schedules/versions.h"

struct check {
    const struct schedule *schedule;
    struct board board;
    struct check_result *result;
    size_t capacity;  // of result->faults
    bool misplaced;   // whether an action stands where it must not
    bool no_memory;
};

// --- faults -------------------------------------------------------------------

__attribute__((format(printf, 5, 6))) static void add_fault(struct check *check, uint32_t rank, size_t position,
                                                            struct action action, const char *format, ...)
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
                add_fault(check, rank, i, list->at[i], "%s", reason);
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
            add_fault(check, rank, SIZE_MAX, action, "it is missing");
        else
            add_fault(check, rank, SIZE_MAX, action, "it is missing, and so are %u more of its kind on this stage",
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
        add_fault(check, rank, position, action, "the step of a flush has no number");
    else if (flush && stage->steps == 1)
        add_fault(check, rank, position, action, "stage %u has had its step", (unsigned)action.stage);
    else if (!flush && action.micro_batch != stage->steps)
        add_fault(check, rank, position, action, "update %u of stage %u is due here", stage->steps,
                  (unsigned)action.stage);
    if (stage->open > 0)
        add_fault(check, rank, position, action, "it comes between an I and its W on stage %u",
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
        add_fault(check, rank, position, action, "it comes after the step of stage %u", (unsigned)action.stage);
    if (action.kind == ACTION_I)
        stage->open++;
    if (action.kind == ACTION_W)
        stage->open--;
    if (action.kind == ACTION_F || action.kind == ACTION_R)
        return;
    stage->last_backward = position + 1;
    if (stage->reduced)
        add_fault(check, rank, position, action, "it comes after the REDUCE of stage %u", (unsigned)action.stage);
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
            add_fault(check, rank, SIZE_MAX, step, "it is missing");
        else if (!flush && at->last_backward > 0)
            add_fault(check, rank, at->last_backward - 1,
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
                add_fault(check, rank, i, list->at[i], "it meets a version of the weights that stage %u has not made yet",
                          (unsigned)list->at[i].stage);
            versions_advance(&versions, rank, list->at[i]);
        }
    }
    versions_clear(&versions);
    return true;
}

// --- the order of messages ---------------------------------------------------------

// Which micro-batches each channel carries, in the order in which they are sent.
struct traffic {
    size_t *first;   // per channel: where its part of `sent` begins
    size_t *passed;  // per channel: sent, then received, so far
    uint32_t *sent;
};

static bool is_kind(struct action action, enum action_kind a, enum action_kind b)
{
    return action.kind == a || action.kind == b;
}

static void collect_sends(const struct schedule *schedule, struct traffic *traffic, bool only_count)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (!is_kind(list->at[i], ACTION_SEND_F, ACTION_SEND_B))
                continue;
            const size_t channel = channel_of(schedule, list->at[i]);
            if (only_count)
                traffic->first[channel + 1]++;
            else
                traffic->sent[traffic->first[channel] + traffic->passed[channel]++] = list->at[i].micro_batch;
        }
    }
}

static void compare_receives(struct check *check, struct traffic *traffic)
{
    const struct schedule *schedule = check->schedule;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (!is_kind(list->at[i], ACTION_RECV_F, ACTION_RECV_B))
                continue;
            const size_t channel = channel_of(schedule, list->at[i]);
            const size_t number = traffic->first[channel] + traffic->passed[channel]++;
            if (number < traffic->first[channel + 1] && traffic->sent[number] != list->at[i].micro_batch)
                add_fault(check, rank, i, list->at[i], "its channel brings micro-batch %u first",
                          traffic->sent[number]);
        }
    }
}

static bool check_message_order(struct check *check, struct error *error)
{
    const size_t channels = channels_of(check->schedule);
    struct traffic traffic = {
        .first = calloc(channels + 1, sizeof *traffic.first),
        .passed = calloc(channels, sizeof *traffic.passed),
    };
    bool good = traffic.first && traffic.passed;
    if (good) {
        collect_sends(check->schedule, &traffic, true);
        for (size_t channel = 0; channel < channels; channel++)
            traffic.first[channel + 1] += traffic.first[channel];
        traffic.sent = calloc(traffic.first[channels] + 1, sizeof *traffic.sent);
        good = traffic.sent != NULL;
    }
    if (good) {
        collect_sends(check->schedule, &traffic, false);
        for (size_t channel = 0; channel < channels; channel++)
            traffic.passed[channel] = 0;
        compare_receives(check, &traffic);
    }
    free(traffic.first);
    free(traffic.passed);
    free(traffic.sent);
    return good || error_no_memory(error, "checking a schedule");
}

// --- whether it comes to its end ----------------------------------------------------

static void add_standstill(struct check *check, const struct schedule *schedule, const size_t *positions)
{
    const struct standstill found = standstill_find(schedule, positions);
    add_fault(check, found.rank, found.position, found.action, "%s", found.reason);
    standstill_describe(schedule, positions, found.rank, &check->result->cycle);
}

// The least capacity that works: more never hurts, so double until one does, then
// halve what is left. No channel carries more than all micro-batches.
static uint32_t least_capacity(struct blocking *blocking)
{
    const uint32_t most = blocking->schedule->micro_batches;
    uint32_t works = 0, fails = 0;
    if (blocking_run(blocking, 0))
        return 0;
    for (works = 1; !blocking_run(blocking, works); works = works > most / 2 ? most : 2 * works) {
        if (works == most)
            return CHECK_NEVER;
        fails = works;
    }
    while (works - fails > 1) {
        const uint32_t middle = fails + (works - fails) / 2;
        if (blocking_run(blocking, middle))
            works = middle;
        else
            fails = middle;
    }
    return works;
}

static bool check_progress(struct check *check, const struct schedule *lowered, uint32_t capacity,
                           struct error *error)
{
    struct blocking blocking;
    if (!blocking_create(&blocking, lowered, error))
        return false;
    check->result->capacity = least_capacity(&blocking);
    if (check->result->capacity > capacity || check->result->capacity == CHECK_NEVER) {
        blocking_run(&blocking, capacity);
        add_standstill(check, lowered, blocking.positions);
    }
    blocking_clear(&blocking);
    return true;
}

// A compute order has its messages added; an order that cannot run at all stands
// still there already.
static bool check_order(struct check *check, uint32_t capacity, struct error *error)
{
    struct error why = { 0 };
    size_t *positions = calloc(check->schedule->ranks, sizeof *positions);
    if (!positions)
        return error_no_memory(error, "checking a schedule");
    struct schedule *lowered = schedule_lower_to(check->schedule, positions, &why);
    bool good = true;
    if (lowered)
        good = check_progress(check, lowered, capacity, error);
    else if (why.kind == ERROR_ANSWER)
        add_standstill(check, check->schedule, positions);
    else
        good = error_set_kind(error, why.kind, "%s", why.text);
    schedule_free(lowered);
    free(positions);
    return good;
}

// Later questions mean something only where every action may stand where it is.
static bool check_all(struct check *check, uint32_t capacity, struct error *error)
{
    check_lists(check);
    check_complete(check);
    if (check->misplaced)
        return true;
    if (!check_steps(check, error) || !check_versions(check, error) || !check_message_order(check, error))
        return false;
    if (check->misplaced)
        return true;
    return check->schedule->lowered ? check_progress(check, check->schedule, capacity, error)
                                    : check_order(check, capacity, error);
}

bool schedule_check(const struct schedule *schedule, uint32_t capacity, struct check_result *result,
                    struct error *error)
{
    *result = (struct check_result){ .capacity = CHECK_NEVER };
    struct check check = { .schedule = schedule, .result = result };
    bool good = board_create(&check.board, schedule, schedule->lowered, error) && check_all(&check, capacity, error);
    board_clear(&check.board);
    if (good && (check.no_memory || result->cycle.failed))
        good = error_no_memory(error, "the faults of a schedule");
    result->ok = good && result->fault_count == 0;
    if (!good)
        check_result_clear(result);
    return good;
}

void check_result_clear(struct check_result *result)
{
    free(result->faults);
    text_clear(&result->cycle);
    *result = (struct check_result){ .capacity = CHECK_NEVER };
}
