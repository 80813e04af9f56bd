// What recomputing takes at least, without deciding what is recomputed: many intervals are asked for it, of which few
// are ever walked (recompute.h). It is what prices on memory say (recompute_prices.h), of all stages that begin with a
// layer at once, since only how much there is to spend differs from stage to stage.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_BOUND_H
#define PARTITIONER_SEARCH_RECOMPUTE_BOUND_H

#include "partitioner/search/interval.h"
#include "schedules/slots.h"

struct recompute_bounds;

// For stages with these slots, which are borrowed, and so much memory.
struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 const uint64_t *capacities, uint32_t stages, struct error *error);
void recompute_bounds_free(struct recompute_bounds *bounds);

// The least time layers [first, end) on a stage spend on recomputation, on a device as
// fast as the profile's; UINT64_MAX if nothing fits.
uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end);

#endif
