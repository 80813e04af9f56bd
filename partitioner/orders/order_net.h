// Stages between downsets that plans below a limit may have, listed once and gone through
// many times.
#ifndef PARTITIONER_ORDERS_ORDER_NET_H
#define PARTITIONER_ORDERS_ORDER_NET_H

#include "partitioner/orders/orders.h"
#include "partitioner/search/search_tables.h"

struct order_edge {
    uint32_t from, to;
    uint64_t recompute_ns;  // at least, as order_recompute_ns()
    struct table_edge edge;
};

struct order_row {
    struct order_edge *at;  // by `from`, ascending
    size_t count, room;
};

struct order_net {
    uint32_t stages;
    struct order_row *rows;  // of each stage
    size_t count;
};

// From the tables, which are of this limit or a larger one; *whole is false where there are too many.
bool order_net_create(struct order_net *net, struct orders *orders, uint64_t limit_ns, bool *whole,
                      struct error *error);
void order_net_clear(struct order_net *net);

// A stage must recompute so much; whether that is news.
bool order_net_reprice(struct order_net *net, const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                       uint64_t recompute_ns);

#endif
