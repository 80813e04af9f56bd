// The part of the check that follows gradients. For each copy of each stage, every backward comes before the REDUCE,
// and the REDUCE before the STEP.
//
//     0B0 0B1 0REDUCE 0STEP                      a flush: once, without a number
//     0B0 0REDUCE0 0STEP0 0B1 0REDUCE1 0STEP1    otherwise each update in its turn
//
// If a schedule contains any updates, every stage with several copies needs its REDUCE. A flush may leave all
// updates to its user.
#include <stdlib.h>

#include "schedules/checking.h"

// What is known of one copy of a stage.
struct progress {
    uint32_t steps, reduces;
    uint32_t open;         // micro-batches that had their I but not their W
    size_t last_backward;  // position + 1 of the last B, I or W since the last STEP; 0: there is none
    bool computes;
    bool goes_back;        // it has had a backward
    bool reduced;          // it has had a REDUCE since the last STEP
    bool validated;
};

struct steps {
    struct check *check;
    struct progress *copies;
    bool flush;
    bool any_step, any_reduce;  // in the schedule
};

// The place of an action.
struct place {
    uint32_t rank;
    size_t position;
    struct action action;
};

#define ADD_FAULT(steps, place, ...) \
    check_add_fault((steps)->check, (place).rank, (place).position, (place).action, __VA_ARGS__)

static uint32_t copies_of(const struct steps *steps, uint32_t stage)
{
    return copies_count(&steps->check->board.copies, stage);
}

// --- one action after the other -------------------------------------------------------

static void check_step(const struct steps *steps, struct place place, struct progress *copy)
{
    const unsigned stage = place.action.stage;
    if (steps->flush && place.action.micro_batch != NO_MICRO_BATCH)
        ADD_FAULT(steps, place, "the step of a flush has no number");
    else if (steps->flush && copy->steps == 1)
        ADD_FAULT(steps, place, "stage %u has had its step", stage);
    else if (!steps->flush && place.action.micro_batch != copy->steps)
        ADD_FAULT(steps, place, "update %u of stage %u is due here", copy->steps, stage);
    if (copy->open > 0)
        ADD_FAULT(steps, place, "it comes between an I and its W on stage %u", stage);
    if (copies_of(steps, stage) > 1 && !copy->reduced)
        ADD_FAULT(steps, place, "the gradients of the %u copies of stage %u have not been reduced",
                  copies_of(steps, stage), stage);
    copy->steps++;
    copy->last_backward = 0;
    copy->reduced = false;
}

static void check_reduce(const struct steps *steps, struct place place, struct progress *copy)
{
    const unsigned stage = place.action.stage;
    if (steps->flush && place.action.micro_batch != NO_MICRO_BATCH)
        ADD_FAULT(steps, place, "the reduction of a flush has no number");
    else if (copy->reduced)
        ADD_FAULT(steps, place, "stage %u has had its reduction", stage);
    else if (steps->flush && copy->steps > 0)
        ADD_FAULT(steps, place, "it comes after the step of stage %u", stage);
    else if (!steps->flush && place.action.micro_batch != copy->steps)
        ADD_FAULT(steps, place, "update %u of stage %u is due here", copy->steps, stage);
    copy->reduces++;
    copy->reduced = true;
}

static void check_validate(const struct steps *steps, struct place place, struct progress *copy)
{
    const unsigned stage = place.action.stage;
    if (!steps->flush)
        ADD_FAULT(steps, place, "there is nothing to validate where weights are not flushed");
    else if (place.action.micro_batch != NO_MICRO_BATCH)
        ADD_FAULT(steps, place, "a validation has no number");
    else if (copy->validated)
        ADD_FAULT(steps, place, "stage %u has had its validation", stage);
    else if (copy->goes_back)
        ADD_FAULT(steps, place, "it comes after a backward of stage %u", stage);
    copy->validated = true;
}

static void check_compute(const struct steps *steps, struct place place, struct progress *copy)
{
    const struct action action = place.action;
    copy->computes = true;
    if (steps->flush && copy->steps > 0)
        ADD_FAULT(steps, place, "it comes after the step of stage %u", (unsigned)action.stage);
    copy->open += action.kind == ACTION_I;
    copy->open -= action.kind == ACTION_W;
    if (action.kind == ACTION_F || action.kind == ACTION_R)
        return;
    copy->goes_back = true;
    copy->last_backward = place.position + 1;
    if (copy->reduced)
        ADD_FAULT(steps, place, "it comes after the REDUCE of stage %u", (unsigned)action.stage);
}

static void check_action(const struct steps *steps, struct place place)
{
    const uint32_t number = copies_find(&steps->check->board.copies, place.action.stage, place.rank);
    struct progress *copy = &steps->copies[number];
    if (place.action.kind == ACTION_STEP)
        check_step(steps, place, copy);
    else if (place.action.kind == ACTION_REDUCE)
        check_reduce(steps, place, copy);
    else if (place.action.kind == ACTION_VALIDATE)
        check_validate(steps, place, copy);
    else if (is_compute(place.action))
        check_compute(steps, place, copy);
}

// --- what is missing at the end ---------------------------------------------------------

// Adds faults for gradients that no step uses, and for steps that other stages have and this one lacks.
static void check_end(const struct steps *steps, uint32_t rank, uint32_t stage, const struct progress *copy)
{
    struct place step = { rank, SIZE_MAX,
                          { .stage = (uint16_t)stage, .kind = ACTION_STEP, .micro_batch = copy->steps } };
    if (steps->flush)
        step.action.micro_batch = NO_MICRO_BATCH;
    if (copy->steps == 0 && (steps->any_step || !steps->flush)) {
        ADD_FAULT(steps, step, "it is missing");
    } else if (!steps->flush && copy->last_backward > 0) {
        const size_t position = copy->last_backward - 1;
        const struct place backward = { rank, position, steps->check->schedule->lists[rank].at[position] };
        ADD_FAULT(steps, backward, "no STEP comes after it");
    }
}

// All copies of a stage must take part in every reduction.
static void check_stage(const struct steps *steps, uint32_t stage)
{
    const struct copies *copies = &steps->check->board.copies;
    const bool reduces = (steps->any_step || steps->any_reduce) && copies_of(steps, stage) > 1;
    uint32_t most = 0;
    for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++)
        most = steps->copies[copy].reduces > most ? steps->copies[copy].reduces : most;
    for (uint32_t number = copies->first[stage]; number < copies->first[stage + 1]; number++) {
        const struct progress *copy = &steps->copies[number];
        struct place reduce = { copies->ranks[number], SIZE_MAX,
                                { .stage = (uint16_t)stage, .kind = ACTION_REDUCE, .micro_batch = copy->reduces } };
        if (steps->flush)
            reduce.action.micro_batch = NO_MICRO_BATCH;
        if (reduces && (copy->reduces < most || (most == 0 && copy->steps == 0)))
            ADD_FAULT(steps, reduce, "it is missing");
        if (copy->computes || reduces)
            check_end(steps, copies->ranks[number], stage, copy);
    }
}

// --- all of it ------------------------------------------------------------------------------

bool check_steps(struct check *check, struct error *error)
{
    const struct schedule *schedule = check->schedule;
    const uint32_t copies = check->board.copies.first[schedule->stages];
    const unsigned kinds = schedule_kinds(schedule);
    struct steps steps = { .check = check, .flush = schedule->weights == WEIGHTS_FLUSH,
                           .any_step = kinds & 1u << ACTION_STEP, .any_reduce = kinds & 1u << ACTION_REDUCE };
    if (schedule_is_forward_only(schedule))
        return true;
    steps.copies = calloc(copies, sizeof *steps.copies);
    if (!steps.copies)
        return error_no_memory(error, "checking a schedule");
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            check_action(&steps, (struct place){ rank, i, schedule->lists[rank].at[i] });
    }
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        check_stage(&steps, stage);
    free(steps.copies);
    return true;
}
