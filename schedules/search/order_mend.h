// Local search: improves an order by small changes along its critical path, the longest chain of moves and messages.
// Two neighbours are swapped, or a W moves to a later pause.
//
//     F3 W1|I0 W2 I1 ...        the chain enters with I0: W1 and W2 may be what is in its way
#ifndef SCHEDULES_ORDER_MEND_H
#define SCHEDULES_ORDER_MEND_H

#include "schedules/search/order_problem.h"

struct order_mend {
    struct order_clock clock;
    uint64_t *ends_ns;
    uint32_t *number;    // per move of the order: its micro-batch
    uint32_t *position;  // [(stage * 3 + kind) * micro_batches + i]: position in the list of its rank
    struct order_change *changes;
    order_move *saved;   // the list of the rank that is being changed
    struct arrays arrays;  // all of these
    uint64_t random;
};

bool order_mend_create(struct order_mend *mend, const struct order_problem *problem, struct error *error);
void order_mend_clear(struct order_mend *mend);

// Which part of the critical path it changes first.
enum order_mend_way { MEND_FROM_END, MEND_FROM_START, MEND_ANYWHERE };

// Changes the order as long as that helps, until `bound_ns` is reached or `*trials` are used up. Returns the order's
// time.
uint64_t order_mend_run(struct order_mend *mend, order_move *order, uint64_t bound_ns, uint64_t *trials,
                        enum order_mend_way way);

#endif
