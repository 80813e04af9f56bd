// Where everyone stands when nobody can go on: who waits for whom.
//
//     rank 0   0F0 [0B0] ...      waits for 1B0 of rank 1
//     rank 1   [1F1] 1B1 ...      waits for 0F1 of rank 0
#ifndef SCHEDULES_STANDSTILL_H
#define SCHEDULES_STANDSTILL_H

#include "schedules/board.h"

struct standstill {
    uint32_t rank;  // the lowest of the cycle, or whoever waits for something that never comes
    size_t position;
    struct action action;
    char reason[REASON_SIZE];
};

// `positions` says where each rank stands in its list (in a group, at its first); a
// rank at its end has finished. At least one has not. The ranks that do stand wait
// for a message of another rank (compute orders), or at a SEND or RECV, or for a
// SEND, or at a REDUCE for a copy that does not stand at it.
struct standstill standstill_find(const struct schedule *schedule, const size_t *positions);

// "rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0",
// going once around, from `first`.
void standstill_describe(const struct schedule *schedule, const size_t *positions, uint32_t first, struct text *text);

// The two as an error of kind ERROR_ANSWER. Returns false.
bool standstill_error(const struct schedule *schedule, const size_t *positions, struct error *error);

// "rank 0, position 3, 0B1: REASON", of kind ERROR_ANSWER. Returns false.
bool action_error(uint32_t rank, size_t position, struct action action, const char *reason, struct error *error);

// Whether each action may come where it stands, as far as its own rank's list says (board.h, which explains `lowered`);
// else the first that may not, likewise.
bool actions_in_order(const struct schedule *schedule, bool lowered, struct error *error);

// The other end of a SEND or RECV.
struct action action_mirror(struct action action);

#endif
