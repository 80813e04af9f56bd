// What every rank is doing at this moment, for the day on which one waits too
// long: each rank writes its own line, anyone may read all of them.
//
//     rank 2 waits at 2RECV_B5 from rank 3; rank 3 waits at 3RECV_F6 from rank 2; rank 1 is at 1F7
//
// in the words of schedule_check(). Who waits in a REDUCE waits for the copies of the
// stage that have not come to it: `rank 0 waits at 0REDUCE for 0REDUCE of rank 3`; who waits
// in a STEP, for who shares its weights: `rank 0 waits at 0STEP for the STEP of rank 3`; and in a computation for copies
// of its stage: `rank 0 waits at 0F1 for rank 3, which has some of what stage 0 shares`.
#ifndef RUNTIME_WHEREABOUTS_H
#define RUNTIME_WHEREABOUTS_H

#include <stdatomic.h>

#include "common/text.h"
#include "partitioner/plan/placement.h"
#include "runtime/process_group.h"
#include "runtime/ties.h"

struct whereabouts {
    const struct schedule *schedule;
    const struct placement *placement;
    const struct ties *ties;  // NULL: nobody shares weights
    _Atomic uint64_t *lines;  // per rank: state and action in one word, so that a line is never half of each
    const uint32_t *at;       // where a rank's is, if not at its number
    bool is_borrowed;
};

// Borrows all, and the lines where a group has a board for them already (process_group.h); NULL: it has not.
bool whereabouts_open(struct whereabouts *whereabouts, const struct schedule *lowered,
                      const struct placement *placement, const struct ties *ties,
                      const struct process_group *group, struct error *error);
void whereabouts_close(struct whereabouts *whereabouts);

void whereabouts_idle(struct whereabouts *whereabouts, uint32_t rank);
void whereabouts_act(struct whereabouts *whereabouts, uint32_t rank, struct action action);
// It waits in this action: a message, REDUCE or STEP, or a computation that copies do together.
void whereabouts_wait(struct whereabouts *whereabouts, uint32_t rank, struct action action);

// What a rank's line says, as a number that changes whenever the rank moves; whether it waits; and what it is at, or "".
uint64_t whereabouts_line(const struct whereabouts *whereabouts, uint32_t rank);
bool whereabouts_line_waits(uint64_t line);
const char *whereabouts_line_action(uint64_t line, char name[ACTION_SIZE]);

// Adds one sentence, without its full stop, of all that wait, along who waits for whom, and
// then of those that work. Idle ranks are left out.
void whereabouts_write(const struct whereabouts *whereabouts, struct text *text);

// Sets the error to that sentence.
bool whereabouts_report(const struct whereabouts *whereabouts, struct error *error);

#endif
