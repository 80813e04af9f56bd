// Better plans of a graph by small moves: a layer goes to the stage before, with all on
// its own stage that it needs, or to the stage behind, with all there that need it.
//
//     stage 0  a b | stage 1  c d e | ...        e reads c:  e goes to stage 0 with c,  a b c e | d
#ifndef PARTITIONER_ORDERS_ORDER_MOVES_H
#define PARTITIONER_ORDERS_ORDER_MOVES_H

#include "partitioner/search/search.h"

// Moves layers of a plan as long as the simulated time falls; `order` is that of the
// layers then, stage by stage, whose cuts and segments plan_search() finds anew. *better is
// false, and there is no order, where no move helps. The request is plain: nothing but
// cuts and recomputation is left to choose.
bool order_moves(const struct search_request *request, const struct plan *plan, uint32_t *order, bool *better,
                 struct error *error);

#endif
