// What the layers between two downsets recompute at least so that they fit, over all orders of theirs: the walk of
// recompute.h, from downset to downset (order_lattice.h).
#ifndef PARTITIONER_ORDERS_ORDER_WALK_H
#define PARTITIONER_ORDERS_ORDER_WALK_H

#include "partitioner/orders/order_lattice.h"
#include "schedules/slots.h"

// A stage: what no choice changes of its memory, without the input, and what there is of it.
struct order_walk_request {
    const struct slots *slots;
    uint64_t input_bytes, fixed_bytes, capacity_bytes;
    size_t most_labels;  // kept of a downset
};

struct order_walk_answer {
    uint64_t least_ns;  // of recomputation, on the profile's device; UINT64_MAX: nothing fits
    bool found;         // a way that takes time_ns, and is the best if that is least_ns
    uint64_t time_ns;
    uint32_t *layers;   // in its order, counted from the stage's first
    struct segment *segments;  // of places in it
    size_t segment_count;
};

// `work` is raised by the number of labels made. The lattice's segments must be those within the capacity.
bool order_walk(const struct order_lattice *lattice, const struct order_walk_request *request, uint64_t *work,
                struct order_walk_answer *answer, struct error *error);
void order_walk_answer_clear(struct order_walk_answer *answer);

#endif
