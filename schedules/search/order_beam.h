// Beam search: many partial orders at once, which grow move by move. After each move only the most promising are
// kept. They are compared by their bounds, then by how little their ranks lose on their own.
#ifndef SCHEDULES_ORDER_BEAM_H
#define SCHEDULES_ORDER_BEAM_H

#include "schedules/search/order_memory.h"

struct order_beam {
    struct order_state state;
    struct order_memory *memory;
    uint32_t width;
    char *now, *next;  // `width` copies of partial orders each
    uint32_t count;    // copies in `now`
    struct order_branch *branches;
};

bool order_beam_create(struct order_beam *beam, const struct order_problem *problem, uint32_t width,
                       struct error *error);
void order_beam_clear(struct order_beam *beam);

// Looks for an order that takes less than `best_ns`, and writes it to `order`. Returns its time, or NEVER_NS if none
// was found. Adds the number of options that were weighed to `*nodes`.
uint64_t order_beam_search(struct order_beam *beam, uint64_t best_ns, uint64_t *nodes, order_move *order);

#endif
