// What no plan of an arrangement can beat where the schedule never flushes: crew_bound.h
// on the devices of the arrangement.
#ifndef PARTITIONER_LAYOUTS_ARRANGEMENT_ASYNC_H
#define PARTITIONER_LAYOUTS_ARRANGEMENT_ASYNC_H

#include "partitioner/layouts/arrangement.h"

struct arrangement_async;
struct arrangement_async *arrangement_async_create(const struct search_request *request,
                                                   const struct arrangement_names *names, struct error *error);
void arrangement_async_free(struct arrangement_async *async);

// 0 where nothing is known: links that several channels share.
bool arrangement_async_bound(const struct arrangement_async *async, const struct arrangement *arrangement,
                             uint64_t *bound_ns, struct error *error);

#endif
