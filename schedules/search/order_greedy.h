// Makes an order in one pass: always what seems best at the moment. Ranks are asked one after the other, the
// earliest free one first. Each chooses among the moves that are ready. A W never delays another rank, so it fills
// the pauses. A few rules determine the choice. No set of rules is best everywhere, so several are tried.
#ifndef SCHEDULES_ORDER_GREEDY_H
#define SCHEDULES_ORDER_GREEDY_H

#include "schedules/search/order_problem.h"

struct order_rules {
    bool forward_first;     // prefer F if an F and an I are ready
    // of several I's take that of the latest stage; otherwise of the earliest, which has most work behind it
    bool late_backward;
    uint8_t patience;       // in quarters of a W: how far a W may run past the next input that is known to come
    uint8_t foresight;      // in quarters of an F: the rank waits for an I that is known to come within that time
    const uint32_t *ahead;  // per rank: F's before the first I; NULL: as many as there is room for
    const order_move *follow;  // F's and I's keep their order in `follow`, a complete order; NULL: no such constraint
};

struct order_greedy {
    struct order_clock clock;
    uint64_t *wake_ns;     // per rank: when it is asked next; or NEVER_NS
    uint64_t *used_bytes;  // per rank
    uint32_t *followed;    // per rank: the position in the order that is followed
};

bool order_greedy_create(struct order_greedy *greedy, const struct order_problem *problem, struct error *error);
void order_greedy_clear(struct order_greedy *greedy);

// Writes an order by the rules. Returns its time by the objective, or NEVER_NS if the rules lead to no complete
// order.
uint64_t order_greedy_run(struct order_greedy *greedy, const struct order_rules *rules, order_move *order);

#endif
