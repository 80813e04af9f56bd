// What a stage must run again at least so that it fits its devices, told from sums over layers: asked for millions of
// times, of any layers on any number of ranks. Memory has prices (partitioner/search/recompute_prices.h), and of the
// cheapest ways through all layers, D to each of them,
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

// NULL without an error where there is nothing to say: all there is surely fits, or stages are held in a way that
// prices do not know. Borrows the request.
struct layout_memory *layout_memory_create(const struct search_request *request, struct error *error);
void layout_memory_free(struct layout_memory *memory);

// So many ranks, each with `ahead` micro-batches in flight and so much memory. The least F of layers [first, end)
// that is run again for each micro-batch, on the profile's device; UINT64_MAX where they do not fit. No less for more
// layers. 0 of no memory.
uint64_t layout_memory_least(const struct layout_memory *memory, uint32_t first, uint32_t end, uint32_t ranks,
                                  uint64_t ahead, uint64_t capacity);

#endif
