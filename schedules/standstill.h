// Describes a deadlock: where each rank is when none can continue, and which rank waits for which.
//
//     rank 0   0F0 [0B0] ...      waits for 1B0 of rank 1
//     rank 1   [1F1] 1B1 ...      waits for 0F1 of rank 0
#ifndef SCHEDULES_STANDSTILL_H
#define SCHEDULES_STANDSTILL_H

#include "schedules/board.h"

struct standstill {
    uint32_t rank;  // the lowest rank of the cycle, or a rank that waits for something that never comes
    size_t position;
    struct action action;
    char reason[REASON_SIZE];
};

// `positions` has the position of each rank in its list (in a group, that of its first action). A rank at the end of
// its list has finished; at least one has not. Each of the others waits in one of these ways:
//
//     compute orders     for a message of another rank
//     lowered schedules  at a SEND or RECV, or for a SEND
//     both               at a REDUCE, for a copy that has not reached it
struct standstill standstill_find(const struct schedule *schedule, const size_t *positions);

// Appends "rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0": once around the cycle,
// beginning with `first`.
void standstill_describe(const struct schedule *schedule, const size_t *positions, uint32_t first, struct text *text);

// Both of these as an error of kind ERROR_ANSWER. Returns false.
bool standstill_error(const struct schedule *schedule, const size_t *positions, struct error *error);

// "rank 0, position 3, 0B1: REASON", of kind ERROR_ANSWER. Returns false.
bool action_error(uint32_t rank, size_t position, struct action action, const char *reason, struct error *error);

// Whether each action may come at its place, by the rules for a single rank's list (board.h, which explains
// `lowered`). If not, the error names the first that may not, in the same form.
bool actions_in_order(const struct schedule *schedule, bool lowered, struct error *error);

// The other end of a SEND or RECV.
struct action action_mirror(struct action action);

#endif
