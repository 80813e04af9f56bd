// Good layouts with their cuts, by annealing the time that layout_model.h gives them, with these moves:
//
//     a cut moves, or several in a row alike             | a b c | d e |  ->  | a b | c d e |
//     a rank goes from one stage to another              3 1 2  ->  2 2 2
//     a stage is split, two are joined,
//     two exchange their numbers of ranks                4 2    ->  2 2 2
//     a stage takes another variant
//     two devices that are not alike change places
//     a rank is left out, or one is used again
//
// After any move but the first, the cuts stay where they are, or the layout is cut anew.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_MOVES_H
#define PARTITIONER_LAYOUTS_LAYOUT_MOVES_H

#include "partitioner/layouts/layout_model.h"
#include "partitioner/layouts/layout_search.h"

// Adds the layouts that it finds, the quickest first. It begins with even layouts. It takes a fixed part of the
// budget, or less if there are no more than `count` layouts. False with an error.
bool layouts_find(struct layout_search *search, size_t count, struct layouts *found, struct error *error);

// Writes all devices that may be used, in one of several orders: as they are given, then by speed and memory.
enum { LAYOUT_SEQUENCES = 4 };
void layout_order_devices(const struct search_request *request, unsigned sequence, uint32_t *devices);

#endif
