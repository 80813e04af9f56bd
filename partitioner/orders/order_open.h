// Chains of downsets that are still to be gone on with, those with the least bound first;
// of equal ones the longest, then the oldest. A node is a chain's last stage:
//
//     {}  ->  {a b}  ->  {a b c e}        its parent is that of the stage before
//
// What only the tables say of a stage is worked out when its turn comes, and not before.
#ifndef PARTITIONER_ORDERS_ORDER_OPEN_H
#define PARTITIONER_ORDERS_ORDER_OPEN_H

#include "partitioner/search/node_heap.h"

struct order_node {
    uint64_t bound_ns;
    uint64_t before_ns;  // once it is priced: the rounds of its stages, to the end of this one
    uint64_t least_ns;   // and what this one must recompute, on the profile's device
    uint64_t from_ns;    // chains that go on from it with less than this bound are all there
    uint32_t parent;     // of the first there is none
    uint32_t to;         // the downset at its end
    uint32_t stages;
    bool is_priced;
};

struct order_open {
    struct order_node *nodes;
    struct node_heap heap;
    size_t count, capacity;
};

bool order_open_add(struct order_open *open, struct order_node node);  // false without memory
void order_open_again(struct order_open *open, uint32_t node);         // with another bound
bool order_open_next(struct order_open *open, uint32_t *node);
void order_open_clear(struct order_open *open);

#endif
