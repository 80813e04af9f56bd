// What no plan can beat, whatever the order of a graph's layers, and whichever ranks hold a stage, alone or as copies:
// the least T for which the devices are just enough for stages between downsets that keep every path within T. That is
// the bound of all arrangements of one order (arrangement_floor.c) with downsets in the place of layers:
//
//     a chain of downsets       {} -> {a b} -> {a b c e} -> all       a stage is what the next one has more
//     front[u][d]               the least ways over the cuts of stages on at most u devices that together are d
//     back[u][d]                those of stages that are all but d
#ifndef PARTITIONER_ORDERS_ORDER_ARRANGED_H
#define PARTITIONER_ORDERS_ORDER_ARRANGED_H

#include "partitioner/search/search.h"

// Of so many downsets each is known; more are put into as many groups.
#define ORDER_ARRANGED_NODES 600

// Raises *bound_ns, below which nothing is, as far as that goes, but not beyond `most_ns`: a plan's that is known. The
// schedule flushes and is one that takes replicas; variants are not for the search to choose.
bool order_arranged_bound(const struct search_request *request, uint32_t most_nodes, uint64_t most_ns,
                          uint64_t *bound_ns, struct error *error);

#endif
