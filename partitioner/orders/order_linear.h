// Orders of a graph's layers that are good to cut.
#ifndef PARTITIONER_ORDERS_ORDER_LINEAR_H
#define PARTITIONER_ORDERS_ORDER_LINEAR_H

#include "profiler/profile.h"

enum order_kind {
    ORDER_DEPTH_FIRST,   // on with a reader of the layer before as long as there is one
    ORDER_FEWEST_BYTES,  // the layer after which the fewest bytes would cross a cut
    ORDER_KINDS,
};

// Of equal layers the first.
bool order_linear(const struct profile *profile, enum order_kind kind, uint32_t *order, struct error *error);

#endif
