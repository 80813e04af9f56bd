// A schedule that is analysed once, so that it can be timed many times.
//
// Everything that does not depend on costs is worked out beforehand. That is which message an action waits for, and
// which message it gives over which channel. It is also one order of all actions of all ranks in which everything
// comes after what it needs (walk.h):
//
//     rank 0   0F0  0F1  0B0  0B1          steps   0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1
//     rank 1   1F0  1B0  1F1  1B1          wait        m0          m1  m2      m3
//                                          give    m0      m1  m2          m3
//
// A SEND is a step that takes no time: its message is ready when the rank gets there. An EVICT or PREFETCH is the
// same: its message, to the rank itself, goes over the link to the host. A RECV has no step. A REDUCE is a step of
// each copy, the first of which ends when all copies can end.
//
// A group becomes several steps: steps that wait, one that takes the time of both actions, and steps that give
// messages. An action that also waits for a move likewise becomes several:
//
//     0B3                       wait for 0PREFETCH3   wait for the gradient, price of 0B3
//     (0F7;7B3)OVERLAP_F_B      wait m4   wait m9   price of 0F7, with 7B3   give m10   give m11
#ifndef SCHEDULES_ORDER_H
#define SCHEDULES_ORDER_H

#include "schedules/tariff.h"

#define NO_MESSAGE UINT32_MAX
// Values of `wait` for steps that are not plain.
#define STEP_OPENS (UINT32_MAX - 1)     // a REDUCE, when all copies of stage `channel` have reached theirs
#define STEP_MEETS (UINT32_MAX - 2)     // the same REDUCE on another copy
#define STEP_OVERLAPS (UINT32_MAX - 3)  // a group: `price` is that of the F, `channel` that of the B or I
#define MOST_MESSAGES (UINT32_MAX - 4)

struct step {
    uint32_t price;
    uint32_t rank;
    uint32_t wait;     // the message that must have arrived, or NO_MESSAGE
    uint32_t give;     // the message that is ready at its end, or NO_MESSAGE
    uint32_t channel;  // of `give`
};

struct order {
    uint32_t ranks;
    struct step *steps;  // in an order in which all can run
    struct step *lists;  // the same, rank by rank; NULL unless needed
    size_t *first;       // where the list of each rank begins; ranks + 1 entries
    size_t count, capacity;
    size_t spare;        // room for more steps than one per action
    uint32_t messages;
    struct copies copies;
    struct tariff tariff;  // must be filled before the order is timed
};

// Analyses a schedule. Fails with ERROR_ANSWER if it cannot run; the error has rank, position, action, and the
// reason. `network` NULL: messages take no time. The order's `lists` are made if requested, and if ranks share
// links. Cleared by order_clear().
bool order_create(struct order *order, const struct schedule *schedule, const struct network *network, bool lists,
                  struct error *error);
void order_clear(struct order *order);

#endif
