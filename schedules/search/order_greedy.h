// Orders made in one go, by always doing what seems best: ranks are asked one after
// the other, whoever is free first, and choose among what is ready then. A
// W never holds anybody up, so it fills the pauses. How they choose is a matter of
// a few rules; no set of rules is best everywhere, so several are tried.
#ifndef SCHEDULES_ORDER_GREEDY_H
#define SCHEDULES_ORDER_GREEDY_H

#include "schedules/search/order_problem.h"

struct order_rules {
    bool forward_first;     // when an F and an I are ready
    bool late_backward;     // of several I's the latest stage's; otherwise the earliest's, which has most behind it
    uint8_t patience;       // quarters of a W that may run past the next input that is known to come
    uint8_t foresight;      // quarters of an F: an I known to come within it is waited for
    const uint32_t *ahead;  // per rank: F's before the first I; NULL: as many as there is room for
    const order_move *follow;  // F's and I's come in the order they have here, an order of its own; NULL: as they may
};

struct order_greedy {
    struct order_clock clock;
    uint64_t *wake_ns;     // per rank: when it is asked next; NEVER_NS
    uint64_t *used_bytes;  // per rank
    uint32_t *followed;    // per rank: how far, where an order is followed
};

bool order_greedy_create(struct order_greedy *greedy, const struct order_problem *problem, struct error *error);
void order_greedy_clear(struct order_greedy *greedy);

// Writes an order; its time by the objective, or NEVER_NS if the rules lead nowhere.
uint64_t order_greedy_run(struct order_greedy *greedy, const struct order_rules *rules, order_move *order);

#endif
