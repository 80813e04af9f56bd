// A part of all chains of downsets: those whose stages end in given ranges of places, and what
// the stages are that such chains may have.
#ifndef PARTITIONER_ORDERS_ORDER_BOX_H
#define PARTITIONER_ORDERS_ORDER_BOX_H

#include "partitioner/orders/order_chain.h"
#include "partitioner/orders/order_net.h"
#include "partitioner/search/loop_places.h"
#include "partitioner/search/node_heap.h"
#include "partitioner/search/path_game.h"

struct box {
    uint64_t bound_ns;
    uint32_t *from, *to;  // where stage s - 1 may end, [from[s], to[s]]
    uint64_t *prices;     // the best of the whole that it is a part of
    uint64_t latency;
    bool asks_loops;      // whether loops said more than mixtures of what it is a part of
};

// A stage of the box at hand.
struct offer {
    uint32_t from, to;
    uint64_t parts[PATH_PARTS], price;
    struct order_edge *edge;
};

struct paths {
    struct orders *orders;
    struct order_net net;
    struct order_chain chain;
    struct path_game *game;
    struct path_room *room;
    struct box **boxes;
    size_t box_count, box_room;
    struct node_heap heap;
    struct offer *offers;      // by stage
    size_t *offer_at;
    uint64_t *ahead, *behind;  // of each place: the cheapest way to it, and from it
    uint64_t *rounds_ahead, *rounds_behind;  // and the least sums of rounds
    struct loop_place *loops;  // of each place
    struct loop_target target;
    uint32_t *next;            // where that goes
    uint64_t *parts;           // of a plan
    uint32_t *counts;
    uint32_t *tried;           // the last chain that was
    uint64_t until;
    bool failed;
    struct error *error;
};

static inline bool box_holds(const struct box *box, uint32_t s, uint32_t place)
{
    return box->from[s] <= place && place <= box->to[s];
}

// The stages that chains of the box may have, as far as what a micro-batch takes and loops (loop_places.h) leave
// them; raises the box's bound, too. False where no chain is below the best plan.
bool box_list(struct paths *paths, struct box *box);

// What the cheapest chain of the listed stages costs at these prices, or NO_ORDER: the cheapest way from every
// place to the end.
uint64_t box_find_cheapest(struct paths *paths, const struct box *box, const uint64_t *prices);

// Leaves stages out whose cheapest chain costs as much as the best plan takes; after box_find_cheapest().
void box_leave_dear(struct paths *paths, const struct box *box, uint64_t latency);

#endif
