// A graph of layers as the search over its orders sees it: blocks of layers that stay
// on one stage, the downsets of those blocks, and what each downset takes.
//
//     tied layers, no_cut_after, and all that lies between such two    one block
//     any other layer                                                   a block of its own
//
// Plans are chains of downsets of blocks, and every chain is a plan. Where there are too
// many of them, layers that take no time, and have no weights, are put to others, such
// that every plan has one among those left that takes no longer, where longer durations
// never make a shorter iteration and memory is left out of account:
//
//     a block U without time       is put to       since that only takes messages away
//     nothing reads it             the only block it reads from
//     it reads nothing             the only block that reads it
//     it reads from one block B    B, where U hands on no more bytes than B hands on to U alone
//     one block V reads it         V, where U hands on no fewer bytes than it reads and V does not
//     it reads and hands on nothing   the first stage
//
// A stage may lose all it has by that, so of a reduced graph stages may be empty. But it had
// something, so that a downset with so many stages in front of it, and behind it, must have been able
// to have as many layers, and to leave as many: those without time may be with it that need
// nothing of what is behind, and behind it those that nothing in it needs.
#ifndef PARTITIONER_ORDERS_ORDER_GRAPH_H
#define PARTITIONER_ORDERS_ORDER_GRAPH_H

#include "partitioner/downsets.h"

enum { ORDER_PRICES = 8 };

// Of a layer's price: what it keeps at so many ns per byte, or its F, whichever is less (order_floor.c).
enum order_sum {
    SUM_FORWARD, SUM_BACKWARD, SUM_BACKWARD_INPUT, SUM_BACKWARD_WEIGHT, SUM_WEIGHTS, SUM_OPTIMIZER, SUM_SAVED,
    SUM_PRICES, ORDER_SUMS = SUM_PRICES + ORDER_PRICES
};

struct order_graph {
    const struct profile *profile;
    bool is_reduced;
    uint32_t block_count;
    uint32_t *block_of;           // of each layer
    struct edge *edges;           // between blocks
    size_t edge_count;
    struct downsets *downsets;    // of blocks; NULL once the graph is coarse
    size_t downset_count;
    double price[ORDER_PRICES];
    uint64_t *sums[ORDER_SUMS];   // of each downset: ns of F, B, I, W; bytes of weights and the optimizer, and saved
    uint64_t *most[ORDER_SUMS];   // of a coarse graph: the most that one of the group has; sums are the least
    uint32_t *most_in, *most_out; // layers with each downset, and behind it, before the graph was reduced; or NULL
    uint64_t *cut;                // of each downset: bytes of a message from it to what is behind
};

struct order_graph_request {
    const struct profile *profile;
    const struct holding *holding;
    bool tied_apart;       // tied layers may be on different stages
    bool reduce;
    size_t most_downsets;  // 0: the usual
};

// NULL without an error, and *too_many, where the graph has more downsets.
struct order_graph *order_graph_create(const struct order_graph_request *request, bool *too_many, struct error *error);
void order_graph_free(struct order_graph *graph);

// Puts downsets of about as much work into groups, at most so many, in order of their
// work; the empty set and that of all layers stay alone. A stage from one group to
// another takes at least what the least of the one has more than the most of the other:
//
//     group a   1000 .. 1009 us       group b   1400 .. 1409 us      a stage from a to b: 391 us
//
// Bounds over a coarse graph hold for the whole one; of plans it knows nothing.
bool order_graph_coarsen(struct order_graph *graph, uint32_t groups, struct error *error);

// The layers of downset `to` that are not in `from`, ascending, which is an order in
// which each comes after what it reads from; returns how many.
uint32_t order_graph_layers(const struct order_graph *graph, uint32_t from, uint32_t to, uint32_t *layers);

// An order of the layers in which each block stands together.
void order_graph_together(const struct order_graph *graph, uint32_t *order);

#endif
