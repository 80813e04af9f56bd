// A lower bound of the time of recomputation, without deciding what is recomputed. It is asked for many intervals,
// few of which are ever walked (recompute.h). It is the bound by prices on memory (recompute_prices.h), for all
// stages that begin with a layer at once, since stages differ only in how much they have to spend.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_BOUND_H
#define PARTITIONER_SEARCH_RECOMPUTE_BOUND_H

#include "partitioner/search/interval.h"
#include "schedules/slots.h"

struct recompute_bounds;

// Bounds for `stages` stages. Each has an entry in both arrays, which are borrowed: how many micro-batches' buffers it
// holds at once, and the bytes of memory of its device. NULL with an error.
struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 const uint64_t *capacities, uint32_t stages, struct error *error);
void recompute_bounds_free(struct recompute_bounds *bounds);

// The least time that layers [first, end) on a stage spend on recomputation, ns on a device as fast as the profile's;
// UINT64_MAX if nothing fits.
uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end);

#endif
