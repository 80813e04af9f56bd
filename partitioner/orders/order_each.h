// Every order of a graph's layers, one after the other, where they are few: whatever is asked for, each of them is
// a search of its own, in which only what is better than the best of those before matters.
#ifndef PARTITIONER_ORDERS_ORDER_EACH_H
#define PARTITIONER_ORDERS_ORDER_EACH_H

#include "partitioner/search/search.h"

// `best`: the plan of the profile's own order, or NULL; the best of all takes its place. *done: all orders were
// searched to the end, in what the work done so far leaves of the budget, and in time; none has a plan below
// *bound_ns, UINT64_MAX where none has any. Else nothing is known.
bool orders_search_each(const struct search_request *request, struct plan **best, uint64_t *bound_ns, bool *done,
                        struct error *error);

#endif
