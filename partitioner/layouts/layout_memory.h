// The least that a stage must recompute to fit its devices, from sums over layers. It is asked millions of times, for
// any layers on any number of ranks. Memory has prices (partitioner/search/recompute_prices.h). D is the cheapest way
// through all layers to each of them, so that
//
//     layers   0 ......... first ............ end
//              |-- D(first) --|
//              |----------- D(end) ------------|       ways of [first, end)  >=  D(end) - D(first) - what it reads of
//                                                                                before `first`, at the price
//
// since a way through a stage goes on where any way to its first layer ends.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_MEMORY_H
#define PARTITIONER_LAYOUTS_LAYOUT_MEMORY_H

#include "partitioner/search/search.h"

struct layout_memory;

// NULL without an error if there is nothing to say: everything surely fits, or stages are held in a way that prices
// do not know. Borrows the request.
struct layout_memory *layout_memory_create(const struct search_request *request, struct error *error);
void layout_memory_free(struct layout_memory *memory);

// The least F of layers [first, end) that is recomputed for each micro-batch, ns on the profile's device. The stage
// has `ranks` ranks, each with `ahead` micro-batches in flight and `capacity` bytes of memory. UINT64_MAX if they do
// not fit. It is no less for more layers. It is 0 if `memory` is NULL.
uint64_t layout_memory_least(const struct layout_memory *memory, uint32_t first, uint32_t end, uint32_t ranks,
                                  uint64_t ahead, uint64_t capacity);

#endif
