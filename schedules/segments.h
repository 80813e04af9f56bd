// Cuts each stage of an order into segments, and runs those of several passes in turns, so that the exchange behind one
// segment has the time of another pass's segment.
//
//     (1F3;2B0)                              two passes of a rank
//     3F3  8B0  4F3  7B0  5F3  6B0           the same in three segments each: stage 1 becomes 3 to 5, and 2 becomes 6
//       |------>  |------>                   to 8
//            |------>  |------>              exchanges
//
// A layer whose devices exchange tokens in the middle (experts) is cut there. Segment k of stage s is stage s n + k of
// the result, on the same rank, and the result *exchanges* (schedule.h). So an exchange is a message between two
// segments, which is checked, lowered, simulated, drawn and run like any other.
//
// The rule: a rank has up to `open` unfinished passes at a time, the first ones of its list. It runs
// the first of them whose next segment has its input, and a W only if no other pass can continue. Time is counted in
// slots: F, I, W and an exchange take one each, and B two. REDUCE and STEP come when all before them is done, and
// nothing behind them begins earlier.
//
// The order therefore depends on no costs. If the given order can run, so can the result: the unfinished pass that is
// first in a run of the given order has all that it needs. For each open pass but one, a rank keeps at most one
// micro-batch of a stage more.
#ifndef SCHEDULES_SEGMENTS_H
#define SCHEDULES_SEGMENTS_H

#include "schedules/schedule.h"

enum { MOST_SEGMENTS = 64, USUAL_OPEN = 2 };

struct segmenting {
    uint32_t segments;  // of each stage, 2 or more
    uint32_t open;      // 1: passes are done one after the other; 0: USUAL_OPEN
};

// Returns a new order, freed by schedule_free(). The given one must be an order without messages, moves, costs and
// exchanges, and it must be able to run; otherwise returns NULL with the reason.
struct schedule *schedule_segment(const struct schedule *order, struct segmenting into, struct error *error);

#endif
