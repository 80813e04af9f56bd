// What the parts of the check share. The parts are check.c (faults of one rank's list, missing actions, versions),
// check_steps.c (updates), check_running.c (messages, and whether it runs to its end) and check_memory.c (memory
// limits).
#ifndef SCHEDULES_CHECKING_H
#define SCHEDULES_CHECKING_H

#include "schedules/board.h"
#include "schedules/check.h"

struct check {
    const struct schedule *schedule;
    const struct check_request *request;
    struct board board;
    struct check_result *result;
    size_t capacity;  // of result->faults
    bool misplaced;   // whether an action is where it must not be
    bool no_memory;
};

void check_add_fault(struct check *check, uint32_t rank, size_t position, struct action action, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// Checks what happens to gradients: REDUCE, STEP and VALIDATE. Every action must be in a legal place. Returns false
// only if memory runs out.
bool check_steps(struct check *check, struct error *error);

// Checks a lowered schedule, which is the given one or is made from it. Every action must be in a legal place.
// Returns false only if memory runs out.
bool check_running(struct check *check, struct error *error);

// Checks whether each rank stays within its memory limit, if the schedule runs to its end. Needs costs.
bool check_memory(struct check *check, const struct schedule *lowered, struct error *error);

#endif
