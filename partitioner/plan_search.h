// The search for plans as a whole (search.h says what is asked, and what is claimed of the answer).
//
//     plan_search    checks the request, says what is proved, and checks whatever plan is found
//         |
//     layouts/       which devices hold which stage, if that is free; or as given:
//         |
//     cuts/          where to cut, and what to recompute
#ifndef PARTITIONER_PLAN_SEARCH_H
#define PARTITIONER_PLAN_SEARCH_H

#include "partitioner/search/search.h"

// The best plan found, with its certificate; the caller frees it. NULL if there is none: the error (ERROR_ANSWER)
// says which stage lacks how much memory, and what would help.
//
// Stages whose data only goes forward are intervals of some order of the layers. For a graph, the profile's own order
// is searched first, then all of them. The plan has an order if it is quicker in another one. With `wanted.own_order`
// the search stops after the first. `proved` says that no quicker plan fits, in any order of the layers, with any cuts
// and any choice of what is recomputed. It says so of all orders even if the search stopped after the first.
//
// `wanted.never_worse`: a larger budget does all that a smaller one does, and then more. And a plan that is found
// with more memory than it needs is also found with what it needs (decision 087).
struct plan *plan_search(const struct search_request *request, struct error *error);

// Units of work if all orders are searched; the search of the profile's own order takes a part of them.
#define ORDERS_DEFAULT_BUDGET 5000000

// The second part alone, with all of its limits. `own_plan` is the plan that the first part made of the same request,
// whose layout is given. It is NULL if that found none. Ownership of it is taken.
struct plan *plan_search_wider(const struct search_request *request, struct plan *own_plan, struct error *error);

// A caller that asked a search for a plan within a deadline, and got none, passes the search's error through this. If
// the deadline passed (error.is_late), nothing is proved: the error is then no answer, but ERROR_MACHINE. (A search
// that is a part of another takes it for a no, and the other goes on.)
void plan_search_blame_deadline(struct error *error);

#endif
