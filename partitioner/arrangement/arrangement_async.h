// What no plan of an arrangement can beat where the schedule never flushes: crew_bound.h
// on the devices of the arrangement.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_ASYNC_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_ASYNC_H

#include "partitioner/arrangement/arrangement.h"

struct arrangement_async;
struct arrangement_async *arrangement_async_create(const struct search_request *request,
                                                   const struct arrangement_names *names, struct error *error);
void arrangement_async_free(struct arrangement_async *async);

// 0 where nothing is known: links that several channels share.
bool arrangement_async_bound(const struct arrangement_async *async, const struct arrangement *arrangement,
                             uint64_t *bound_ns, struct error *error);

// What no plan of any arrangement can beat (arrangement_async_floor.c); 0 where nothing is known.
struct arrangement_bounds;
bool arrangement_async_floor(const struct arrangement_bounds *bounds, uint64_t *bound_ns, struct error *error);

// The same of a graph, in whichever order its layers stand: the work alone, averaged over the ranks.
bool arrangement_async_average(const struct search_request *request, uint64_t *bound_ns, struct error *error);

#endif
