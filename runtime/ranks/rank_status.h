// What every rank is doing at the moment, for the error message when one waits too long (a flight recorder). Each
// rank writes its own line, and every rank may read all of them.
//
//     rank 2 waits at 2RECV_B5 from rank 3; rank 3 waits at 3RECV_F6 from rank 2; rank 1 is at 1F7
//
// These are the words of schedule_check(). A rank in a REDUCE waits for the copies of the stage that have not reached
// it: `rank 0 waits at 0REDUCE for 0REDUCE of rank 3`. A rank in a STEP waits for a stage that shares its weights:
// `rank 0 waits at 0STEP for the STEP of rank 3`. A rank in a computation waits for copies of its stage: `rank 0
// waits at 0F1 for rank 3, which has some of what stage 0 shares`.
#ifndef RUNTIME_RANKS_RANK_STATUS_H
#define RUNTIME_RANKS_RANK_STATUS_H

#include <stdatomic.h>

#include "common/text.h"
#include "partitioner/plan/placement.h"
#include "runtime/groups/process_group.h"
#include "runtime/ranks/ties.h"

struct rank_status {
    const struct schedule *schedule;
    const struct placement *placement;
    const struct ties *ties;  // NULL: no stages share weights
    _Atomic uint64_t *lines;  // per rank: state and action in one word, so that it is read and written as a whole
    const uint32_t *at;       // index of each rank's line; NULL: its number
    bool is_borrowed;
};

// Borrows everything, including the lines if the group has a board for them (process_group.h). `group` may be NULL.
bool rank_status_open(struct rank_status *status, const struct schedule *lowered,
                      const struct placement *placement, const struct ties *ties,
                      const struct process_group *group, struct error *error);
void rank_status_close(struct rank_status *status);

void rank_status_idle(struct rank_status *status, uint32_t rank);
void rank_status_act(struct rank_status *status, uint32_t rank, struct action action);
// The rank waits in this action: a message, a REDUCE or STEP, or a computation that copies do together.
void rank_status_wait(struct rank_status *status, uint32_t rank, struct action action);

// A rank's line as a number, which changes whenever the rank moves on; whether that line says it waits; and the
// action that it names, or "".
uint64_t rank_status_line(const struct rank_status *status, uint32_t rank);
bool rank_status_line_waits(uint64_t line);
const char *rank_status_line_action(uint64_t line, char name[ACTION_SIZE]);

// Adds one sentence, without its full stop: first all waiting ranks, following which rank waits for which, then the
// working ones. Idle ranks are left out.
void rank_status_write(const struct rank_status *status, struct text *text);

// Sets the error to that sentence.
bool rank_status_report(const struct rank_status *status, struct error *error);

#endif
