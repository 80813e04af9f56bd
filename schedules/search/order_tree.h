// Branch and bound: tries all orders that could be better than the best one known.
//
// A node is pruned if its bound is not below the best time. It is also pruned if an earlier node had the same moves,
// and nothing was later in it (order_memory.h).
#ifndef SCHEDULES_ORDER_TREE_H
#define SCHEDULES_ORDER_TREE_H

#include "schedules/search/order_state.h"

struct order_tree {
    struct order_state state;
    order_move *best;     // the last order that was found
    uint64_t best_ns;     // only orders that take less are searched
    uint64_t bound_ns;    // the search ends when this time is reached
    uint64_t nodes, most_nodes;
    bool interrupted;
    struct order_memory *memory;  // of nodes met before
    struct order_option *options;
};

// The search is as deep as an order has moves. With a greater depth than this it would not end in any case.
enum { ORDER_TREE_MOST_MOVES = 4096, ORDER_TREE_MOST_CHUNKS = 8 };

bool order_tree_create(struct order_tree *tree, const struct order_problem *problem, struct error *error);
void order_tree_clear(struct order_tree *tree);

// Searches for orders that take less than tree->best_ns. Returns true if all were tried, or if one reaches the
// bound; false if it ran out of nodes. If an order was found, tree->best_ns is lower afterwards, and tree->best is
// that order.
bool order_tree_search(struct order_tree *tree);

#endif
