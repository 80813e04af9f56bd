// Good layouts with their cuts, by annealing what layout_model.h says of them:
//
//     a cut moves, or several in a row do alike          | a b c | d e |  ->  | a b | c d e |
//     a rank goes from one stage to another              3 1 2  ->  2 2 2
//     a stage is parted, two become one,
//     two exchange their numbers of ranks                4 2    ->  2 2 2
//     a stage takes another variant
//     two devices that are unlike change places
//     a rank is left out, or one is used again
//
// After any but the first the cuts stay where they are, or all is cut anew.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_MOVES_H
#define PARTITIONER_LAYOUTS_LAYOUT_MOVES_H

#include "partitioner/layouts/layout_model.h"
#include "partitioner/layouts/layout_search.h"

// Adds what is found, the quickest first. From even layouts on; takes a fixed part of the budget, less where there are
// no more than so many.
bool layouts_find(struct layout_search *search, size_t count, struct layouts *found, struct error *error);

// All devices that may be used, in one of several orders: as they are given, then by speed and memory.
enum { LAYOUT_SEQUENCES = 4 };
void layout_order_devices(const struct search_request *request, unsigned sequence, uint32_t *devices);

#endif
