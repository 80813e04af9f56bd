// The search of plans as a whole (search.h says what is asked, and what is claimed of the answer).
//
//     plan_search        checks the request, and whatever plan is found
//         |
//     arrangement/       who holds what, where that is free; or as given:
//         |      |
//         |      coupled/    any order of actions
//         |      |
//     search/            orders of whole backwards, one stage per rank
#ifndef PARTITIONER_PLAN_SEARCH_H
#define PARTITIONER_PLAN_SEARCH_H

#include "partitioner/search/search.h"

// The best plan found, with its certificate. NULL when there is none: the error
// (ERROR_ANSWER) says which stage lacks how much memory and what would help.
// For the order in which the profile has its layers; order_plan.h knows the others.
struct plan *plan_search(const struct search_request *request, struct error *error);

// Whoever asked a search for a plan within a deadline, and got none, hands its error on through this: where the search
// says that the deadline has passed, so that nothing is proved, it is no answer, but ERROR_MACHINE. (A search that is a
// part of another takes it for a no, and the other goes on.)
void plan_search_blame_deadline(uint64_t deadline_ns, struct error *error);

#endif
