// The search over the orders of a graph's layers. Stages whose data only goes forward
// are intervals of some order of the layers; plan_search() knows the profile's own, and
// this one all of them:
//
//     a chain, or a graph with one order           plan_search()
//     as many downsets as can be gone through      all chains of them, to the end or with a bound
//     more                                         a few good orders, and a bound that holds for all
//
// What `proved` says here: no order of the layers, no cuts of it and no segments of the
// layers that then follow each other make a quicker plan that fits.
#ifndef PARTITIONER_ORDERS_ORDER_PLAN_H
#define PARTITIONER_ORDERS_ORDER_PLAN_H

#include "partitioner/search/search.h"

// Units of work where all orders are searched, of which the profile's own takes a part.
#define ORDERS_DEFAULT_BUDGET 5000000

// As plan_search(), which it begins with. The plan has an order where it is quicker in
// another than the profile's own.
struct plan *plan_search_orders(const struct search_request *request, struct error *error);

#endif
