// The search of plans as a whole (search.h says what is asked, and what is claimed of the answer).
//
//     plan_search, plan_search_orders    check the request, and whatever plan is found
//         |
//     layouts/                           who holds what, where that is free; or as given:
//         |
//     cuts/                              where to cut, and what to recompute
#ifndef PARTITIONER_PLAN_SEARCH_H
#define PARTITIONER_PLAN_SEARCH_H

#include "partitioner/search/search.h"

// The best plan found, with its certificate. NULL when there is none: the error
// (ERROR_ANSWER) says which stage lacks how much memory and what would help.
// For the order in which the profile has its layers.
struct plan *plan_search(const struct search_request *request, struct error *error);

// Units of work where all orders are searched, of which the profile's own takes a part.
#define ORDERS_DEFAULT_BUDGET 5000000

// The same over all orders of a graph's layers: stages whose data only goes forward are intervals of some order. The plan
// has an order where it is quicker in another than the profile's own. What `proved` says then: no order of the layers, no
// cuts of it and no segments of the layers that then follow each other make a quicker plan that fits. `wanted.own_order`
// leaves it at the profile's own, of which that is never said, since others may be quicker.
struct plan *plan_search_orders(const struct search_request *request, struct error *error);

// Whoever asked a search for a plan within a deadline, and got none, hands its error on through this: where the search
// says that the deadline has passed, so that nothing is proved, it is no answer, but ERROR_MACHINE. (A search that is a
// part of another takes it for a no, and the other goes on.)
void plan_search_blame_deadline(uint64_t deadline_ns, struct error *error);

#endif
