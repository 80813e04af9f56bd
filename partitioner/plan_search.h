// The search of plans as a whole (search.h says what is asked, and what is claimed of the answer).
//
//     plan_search    checks the request, says what is proved, and checks whatever plan is found
//         |
//     layouts/       who holds what, where that is free; or as given:
//         |
//     cuts/          where to cut, and what to recompute
#ifndef PARTITIONER_PLAN_SEARCH_H
#define PARTITIONER_PLAN_SEARCH_H

#include "partitioner/search/search.h"

// The best plan found, with its certificate. NULL when there is none: the error
// (ERROR_ANSWER) says which stage lacks how much memory and what would help.
//
// Stages whose data only goes forward are intervals of some order of the layers. Of a graph the profile's own order is
// searched first, then all of them; the plan has an order where it is quicker in another. `wanted.own_order` leaves it at
// the first. What `proved` says either way: no order of the layers, no cuts of it and no segments of the layers that then
// follow each other make a quicker plan that fits.
//
// `wanted.never_worse`: a larger budget does all that a smaller one does, and then more; and a plan of more memory than it
// needs is found with what it needs (decision 087).
struct plan *plan_search(const struct search_request *request, struct error *error);

// Units of work where all orders are searched, of which the profile's own takes a part.
#define ORDERS_DEFAULT_BUDGET 5000000

// The second part alone, with the whole of its limits: `own` is what the first made of the same request (whose layout is
// given), or NULL where that found none; it is taken.
struct plan *plan_search_wider(const struct search_request *request, struct plan *own, struct error *error);

// Whoever asked a search for a plan within a deadline, and got none, hands its error on through this: where the search
// says that the deadline has passed, so that nothing is proved, it is no answer, but ERROR_MACHINE. (A search that is a
// part of another takes it for a no, and the other goes on.)
void plan_search_blame_deadline(uint64_t deadline_ns, struct error *error);

#endif
