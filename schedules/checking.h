// What the parts of the check share: check.c (what one rank's list can break, what
// is missing, versions), check_steps.c (updates), check_running.c (messages, and
// whether it comes to its end).
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
    bool misplaced;   // whether an action stands where it must not
    bool no_memory;
};

void check_add_fault(struct check *check, uint32_t rank, size_t position, struct action action, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// What becomes of gradients: REDUCE, STEP and VALIDATE. Every action must stand where
// it may. False only without memory.
bool check_steps(struct check *check, struct error *error);

// Everything that is asked of a lowered schedule, the check's own or one made of
// it. Every action must stand where it may. False only without memory.
bool check_running(struct check *check, struct error *error);

// Whether what each rank holds stays within its limit, if the schedule comes to its
// end. Needs costs.
bool check_memory(struct check *check, const struct schedule *lowered, struct error *error);

#endif
