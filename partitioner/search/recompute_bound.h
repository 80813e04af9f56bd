// What recomputing takes at least, without deciding what is recomputed: millions of
// intervals are asked for it, of which few are ever walked (recompute.h).
//
// Without recomputation a stage lacks so many bytes. Recomputing a layer saves at most
// what it keeps, in its own time; as if layers could be recomputed in part, those that
// save most per time go first, until nothing is lacking:
//
//     saves per time   9     7        4      2
//                     [l12] [l3 and l4] [l8  ]|        three and a half layers
//                                         ^ enough
//
// Segments must keep what they read and need a workspace; that only takes more.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_BOUND_H
#define PARTITIONER_SEARCH_RECOMPUTE_BOUND_H

#include "partitioner/search/interval.h"
#include "schedules/slots.h"

struct recompute_bounds;

// For stages with these slots and so much memory each; borrowed.
struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 uint32_t stages, struct error *error);
void recompute_bounds_free(struct recompute_bounds *bounds);

// The least time layers [first, end) on a stage spend on recomputation, on a device as
// fast as the profile's; UINT64_MAX if nothing fits.
uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end,
                         uint64_t capacity_bytes);

// What came out of a walk since, if it is more.
void recompute_bounds_learn(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end,
                            uint64_t least_ns);

#endif
