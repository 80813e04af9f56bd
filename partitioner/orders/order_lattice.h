// The downsets between two of them, as ways to order the layers of a stage. What is alive while a layer runs depends
// on which layers came before it and not on their order, and so does what a segment reads and holds, so that one walk
// from downset to downset goes through all orders at once:
//
//     {a}  -keep b->  {a b}  -keep c->  {a b c}
//          -keep c->  {a c}  -keep b->
//          -run b and c again-------->
//
// Only what is alive inside a segment is different from order to order: the least of them counts, which no order
// undercuts. Where runs and backwards have workspaces of different sizes these may be of two orders.
#ifndef PARTITIONER_ORDERS_ORDER_LATTICE_H
#define PARTITIONER_ORDERS_ORDER_LATTICE_H

#include "partitioner/orders/order_graph.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/recompute_prices.h"

#define NO_STEP UINT32_MAX

// From one downset to another: a layer that is kept, or a segment, which is made of steps with one layer less.
struct lattice_step {
    uint32_t from, to;
    uint32_t layers;
    uint32_t layer, before;    // the last one, and the segment without it; NO_STEP
    bool is_kept;
    uint8_t life;              // enum input_life, for what it reads of before the stage
    uint64_t time_ns;          // of running it again
    uint64_t saved_bytes;      // if it is kept
    uint64_t read_bytes;       // kept for it: tensors of the stage that it alone reads,
    uint64_t read_set;         // and those that others read, too, by their bits;
    uint64_t part_bytes;       // all of them, but of those only the parts that prices have its layers pay
    uint64_t data_bytes, backward_bytes, forward_bytes;  // of a segment
    uint64_t peak_bytes;       // the workspace of the stage while these layers run
};

struct order_lattice {
    struct intervals *intervals;  // of the profile with the stage's layers together
    uint32_t first, end;          // these; borrowed, as all above
    uint32_t count;               // of downsets, in order of size; 0 and count - 1 are the ends
    uint32_t *downsets;           // their numbers
    uint64_t *above;              // alive behind each: made, and still read
    uint64_t *least;              // the workspace that the layers behind each need at least
    uint64_t *live;               // the bits of tensors that are still read
    uint32_t *step_at;            // of each
    struct lattice_step *steps;
    size_t step_count, step_room;
    uint8_t *bit_of;              // of each layer's output: NO_BIT, or its bit
    uint64_t bit_bytes[64];
    uint64_t *paid;               // [64 * downset + bit]: what readers behind it are taken to pay for a tensor
};

// Layers [first, end) of the profile are those of downset `to` that are not in `from`, `layers` in the graph. Segments
// with more data than `most_bytes` are left out. *fits is false where more than 64 tensors have several readers.
bool order_lattice_create(struct order_lattice *lattice, struct intervals *intervals, uint32_t first,
                          const struct order_graph *graph, uint32_t from, uint32_t to, const uint32_t *layers,
                          uint64_t most_bytes, bool *fits, struct error *error);
void order_lattice_clear(struct order_lattice *lattice);

// Makes ready to ask for what is left from each downset on, by places (recompute_prices.h); `dry`: of ways for which
// the stage's input is not kept.
void order_lattice_price(const struct order_lattice *lattice, struct recompute_prices *prices, bool dry);

#endif
