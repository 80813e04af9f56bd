#include "partitioner/orders/order_net.h"

#include <stdlib.h>

// Stages beyond which a net is too large: 96 MB.
#define MOST_EDGES 1000000

// Fills in what is known of a stage; false where no plan below the limit has it.
static bool price(const struct orders *orders, uint32_t s, uint64_t limit_ns, struct order_edge *edge)
{
    const uint64_t before = orders->before[order_cell(orders, s, edge->from)];
    const uint64_t behind = orders->behind[order_cell(orders, s + 1, edge->to)];
    if (before == NO_ORDER || behind == NO_ORDER || edge->recompute_ns == NO_ORDER)
        return false;
    struct table_edge *known = &edge->edge;
    known->stage = order_pattern_stage(orders, s, edge->from, edge->to, edge->recompute_ns);
    known->round = pattern_round_ns(&known->stage);
    known->way = known->round - known->stage.forward_ns - known->stage.backward_ns;
    known->before = before;
    known->behind = behind;
    known->bound = order_stage_bound(orders, s, edge->from, edge->to, &known->stage, before);
    return known->bound < limit_ns;
}

static bool add(struct order_net *net, uint32_t s, const struct order_edge *edge)
{
    struct order_row *row = &net->rows[s];
    if (row->count == row->room) {
        const size_t room = 2 * row->room + 256;
        struct order_edge *grown = realloc(row->at, room * sizeof *grown);
        if (!grown)
            return false;
        row->at = grown;
        row->room = room;
    }
    row->at[row->count++] = *edge;
    net->count++;
    return true;
}

// The stages of all ranks that hold these layers.
static bool add_pair(struct order_net *net, struct orders *orders, uint32_t from, uint32_t to, uint64_t limit_ns)
{
    for (uint32_t s = 0; s < net->stages; s++) {
        if (!order_may_end(orders, s, to) || orders->before[order_cell(orders, s, from)] == NO_ORDER
            || orders->tail[order_cell(orders, s + 1, to)] == NO_ORDER)
            continue;
        struct order_edge edge = { .from = from, .to = to, .recompute_ns = order_recompute_ns(orders, s, from, to) };
        if (price(orders, s, limit_ns, &edge) && !add(net, s, &edge))
            return false;
    }
    return true;
}

static bool add_from(struct order_net *net, struct orders *orders, struct downset_walk *walk, uint32_t from,
                     uint64_t limit_ns)
{
    uint32_t to = from;
    bool good = !orders->graph->is_reduced || add_pair(net, orders, from, from, limit_ns);
    if (!orders->graph->downsets) {
        for (to = from + 1; good && to < orders->downsets; to++)
            if (order_least_ns(orders, from, to) < limit_ns)
                good = add_pair(net, orders, from, to, limit_ns);
        return good;
    }
    downset_walk_up(walk, from);
    while (good && downset_walk_next(walk, &to)) {
        if (order_least_ns(orders, from, to) >= limit_ns)
            downset_walk_prune(walk);
        else
            good = add_pair(net, orders, from, to, limit_ns);
    }
    return good;
}

bool order_net_create(struct order_net *net, struct orders *orders, uint64_t limit_ns, bool *whole, struct error *error)
{
    struct downset_walk walk = { 0 };
    *net = (struct order_net){ .stages = orders->stages };
    *whole = true;
    net->rows = calloc(orders->stages, sizeof net->rows[0]);
    bool good = net->rows || error_no_memory(error, "a search");
    good = good && (!orders->graph->downsets || downset_walk_create(&walk, orders->graph->downsets, error));
    for (uint32_t from = 0; good && *whole && from < orders->downsets; from++) {
        good = add_from(net, orders, &walk, from, limit_ns) || error_no_memory(error, "a search");
        *whole = net->count <= MOST_EDGES;
    }
    orders->coupled->work += 1 + net->count / 8;
    downset_walk_clear(&walk);
    return good;
}

void order_net_clear(struct order_net *net)
{
    for (uint32_t s = 0; net->rows && s < net->stages; s++)
        free(net->rows[s].at);
    free(net->rows);
    *net = (struct order_net){ 0 };
}

bool order_net_reprice(struct order_net *net, const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                       uint64_t recompute_ns)
{
    struct order_row *row = &net->rows[stage];
    for (size_t i = 0; i < row->count; i++) {
        struct order_edge *edge = &row->at[i];
        if (edge->from != from || edge->to != to)
            continue;
        if (edge->recompute_ns == recompute_ns)
            return false;
        edge->recompute_ns = recompute_ns;
        if (!price(orders, stage, NO_ORDER, edge))
            edge->edge.bound = NO_ORDER;
        return true;
    }
    return false;
}
