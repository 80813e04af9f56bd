// Greedy list scheduling, for schedules that are defined by rules and not by lists.
//
// Time is divided into slots. In every slot each free rank begins an action whose inputs are there: the one with the
// least turn. A forward begins only if there is room for what it keeps. W has no turn. It runs to make room for a
// forward that would be next, and otherwise fills slots in which there is nothing else to do.
//
//     rank 0   F0 F1 ·  ·  I0 F2 I1 W0 W1 I2 W2      F2 would come before W0, and has room
//     rank 1   ·  F0 F1 I0 I1 W0 F2 ...
//
// If no rank can continue, the limits are ignored for one action. Any rules therefore lead to an order.
#ifndef SCHEDULES_GREEDY_H
#define SCHEDULES_GREEDY_H

#include "schedules/schedule.h"

struct greedy_rules {
    bool splits_backward;        // I and W of one slot each; otherwise B of two slots; a forward takes one
    uint32_t most_kept;          // on a rank: forwards whose B or W has not run
    uint32_t (*most_ahead)(const void *state, uint32_t stage);  // forwards of a stage whose B or I has not run
    int64_t (*turn)(const void *state, struct action action);   // for an F, B or I; the least goes first
    const void *state;
};

// Fills the lists of an empty schedule with F and B, or F, I and W.
bool greedy_order(struct schedule *schedule, const struct greedy_rules *rules, struct error *error);

#endif
