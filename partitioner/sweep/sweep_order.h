// The row `search` of a sweep: not a schedule by name but an order that is searched for
// (schedules/search/order_search.h), for the cuts that a schedule with the same placement has:
//
//     1 stage per rank     one way       cuts of zb-h1, or of 1f1b where that does not fit
//     2                    on a V        cuts of zb-v, v-half or v-min, the first that fits
//
// The search counts what micro-batches keep, but no buffers of messages; where the
// slab of what it found is too large it is asked again with so much less.
#ifndef PARTITIONER_SWEEP_SWEEP_ORDER_H
#define PARTITIONER_SWEEP_SWEEP_ORDER_H

#include <string.h>

#include "partitioner/sweep/sweep.h"

#define SWEEP_ORDER_NAME "search"

static inline bool sweep_is_order(const struct sweep_row *row)
{
    return strcmp(row->schedule, SWEEP_ORDER_NAME) == 0;
}

// Fills in a row. False only for a machine's trouble.
bool sweep_order_row(const struct sweep_request *request, struct sweep_row *row, struct error *error);

#endif
