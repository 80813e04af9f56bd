// Orders found by doing, for schedules that are given by rules and not as lists.
//
// Time goes in slots. In every slot each rank that is free begins, of the actions
// whose inputs are there, the one whose turn is first; a forward only while there
// is room for what it keeps. W has no turn: it makes room for a forward that would
// be next, and otherwise fills the slots in which there is nothing else to do.
//
//     rank 0   F0 F1 ·  ·  I0 F2 I1 W0 W1 I2 W2      F2 would come before W0, and has room
//     rank 1   ·  F0 F1 I0 I1 W0 F2 ...
//
// Should nobody be able to go on, the limits are put aside for one action: there is
// an order for whatever rules.
#ifndef SCHEDULES_GREEDY_H
#define SCHEDULES_GREEDY_H

#include "schedules/schedule.h"

struct greedy_rules {
    bool splits_backward;        // I and W, one slot each; otherwise B, two slots, as a forward takes one
    uint32_t most_kept;          // on a rank: forwards that have had no B or W
    const uint32_t *most_ahead;  // per stage: forwards that have had no B or I; NULL: any number
    int64_t (*turn)(const void *state, struct action action);  // of an F, B or I; the least is first
    const void *state;
};

// Fills the lists of an empty schedule with F and B, or F, I and W.
bool greedy_order(struct schedule *schedule, const struct greedy_rules *rules, struct error *error);

#endif
