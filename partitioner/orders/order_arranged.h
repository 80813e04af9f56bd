// What no plan can beat, whatever the order of a graph's layers, and whichever ranks hold a stage, alone or as copies:
// the bound of all arrangements of one order (arrangement_floor.c), with downsets in the place of the places where
// layers can be cut. They stand in order of work, as if there were a stage between any two:
//
//     {}   {a}   {a c}   {a b}   {a b c}   ...     a stage from {a} to {a b c} is b c, and from {a c} to {a b}
//                                                  as much as {a b} takes longer
//
// All stages together then still are the whole model; more downsets than are asked for are put into groups.
#ifndef PARTITIONER_ORDERS_ORDER_ARRANGED_H
#define PARTITIONER_ORDERS_ORDER_ARRANGED_H

#include "partitioner/search/search.h"

// Usual numbers of places: with a flush and, where each is looked at many times, without.
#define ORDER_ARRANGED_PLACES 600
#define ORDER_ARRANGED_ASYNC_PLACES 300

// Raises *bound_ns, below which nothing is, as far as that goes, and *work by what it took. The schedule is one that
// takes replicas; variants are not for the search to choose.
bool order_arranged_bound(const struct search_request *request, uint32_t most_places, uint64_t *bound_ns,
                          uint64_t *work, struct error *error);

#endif
