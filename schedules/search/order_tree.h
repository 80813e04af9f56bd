// All orders that could be better than the best one known, tried one by one.
//
// A node is left where its bound is not below the best, and where all moves made are those
// of a node met before in which nothing was later (order_memory.h).
#ifndef SCHEDULES_ORDER_TREE_H
#define SCHEDULES_ORDER_TREE_H

#include "schedules/search/order_state.h"

struct order_tree {
    struct order_state state;
    order_move *best;     // the order found last
    uint64_t best_ns;     // nothing that takes as long is looked for
    uint64_t bound_ns;    // the search ends when this is met
    uint64_t nodes, most_nodes;
    bool interrupted;
    struct order_memory *memory;  // of nodes met before
    struct order_option *options;
};

// A search is as deep as an order has moves; deeper than this it would not end anyway.
enum { ORDER_TREE_MOST_MOVES = 4096, ORDER_TREE_MOST_CHUNKS = 8 };

bool order_tree_create(struct order_tree *tree, const struct order_problem *problem, struct error *error);
void order_tree_clear(struct order_tree *tree);

// Looks for orders that take less than tree->best_ns. True if all were tried, or one meets the bound; false if
// nodes ran out. tree->best_ns is lower afterwards if one was found, and tree->best is that order.
bool order_tree_search(struct order_tree *tree);

#endif
