// What no plan of a layout can beat where the schedule never flushes: crew_bound.h
// on the devices of the layout.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_ASYNC_H
#define PARTITIONER_LAYOUTS_LAYOUT_ASYNC_H

#include "partitioner/layouts/layout.h"

struct layout_async;
struct layout_async *layout_async_create(const struct search_request *request,
                                                   const struct layout_names *names, struct error *error);
void layout_async_free(struct layout_async *async);

// 0 where nothing is known: links that several channels share.
bool layout_async_bound(const struct layout_async *async, const struct layout *layout,
                             uint64_t *bound_ns, struct error *error);

#endif
