// Chains of downsets, stage by stage from the first, those with the least bound first
// (order_open.h):
//
//     {}  ->  {a b}  ->  {a b c e}  ->  all         stages  a b | c e | the rest
//         ->  {a c}  -> ...
//
// A chain that has come so far is left when its bound is not below the best plan: the
// largest of what the tables say of its last stage and of those behind it; the time of
// its stages, with what is behind them as a way that takes at least so long (where
// pattern.h knows the order) or as if it took no time (where it does not); and what the
// ranks that are not done have to do on average. At its end stand the plans with these
// stages: all ways to recompute that fit.
#include <stdlib.h>
#include <string.h>

#include "partitioner/orders/order_chain.h"
#include "partitioner/orders/order_open.h"

struct candidate {
    uint32_t to;
    uint64_t bound_ns;
};

struct nodes {
    struct orders *orders;
    struct order_chain chain;  // of the node that is open
    struct downset_walk walk;
    struct order_open open;
    struct candidate *candidates;  // stages that may follow it
    size_t candidate_count, candidate_room;
};

// Nodes beyond which the search ends: they take about 60 MB.
#define MOST_NODES 1000000

// Of a node those stages are added together whose bounds are within this part of each other.
#define AT_ONCE 1000

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// --- chains -------------------------------------------------------------------------------

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// What the tables say of a stage that begins where the chain has come to.
static uint64_t expected(const struct nodes *nodes, uint32_t s, uint32_t to, uint64_t before_ns)
{
    const struct orders *orders = nodes->orders;
    if (!order_may_end(orders, s, to))
        return NO_ORDER;
    if (!orders->has_bounds)
        return 0;
    const uint64_t tail = orders->tail[order_cell(orders, s + 1, to)];
    if (tail == NO_ORDER)
        return NO_ORDER;
    const uint64_t least = order_recompute_ns(orders, s, nodes->chain.at[s], to);
    if (least == NO_ORDER)
        return NO_ORDER;
    const struct pattern_stage as = order_pattern_stage(orders, s, nodes->chain.at[s], to, least);
    return larger(tail, order_stage_bound(orders, s, nodes->chain.at[s], to, &as, before_ns));
}

// Notes a stage that may follow.
static void note_candidate(struct nodes *nodes, uint32_t to, uint64_t bound_ns)
{
    if (nodes->candidate_count == nodes->candidate_room) {
        const size_t room = 2 * nodes->candidate_room + 64;
        struct candidate *grown = realloc(nodes->candidates, room * sizeof *grown);
        if (!grown) {
            order_chain_no_memory(&nodes->chain);
            return;
        }
        nodes->candidates = grown;
        nodes->candidate_room = room;
    }
    nodes->candidates[nodes->candidate_count++] = (struct candidate){ to, bound_ns };
}

// All stages that may follow and are not there yet.
static void list_candidates(struct nodes *nodes, const struct order_node *node)
{
    struct orders *orders = nodes->orders;
    uint32_t to = node->to;
    size_t pairs = 0;
    nodes->candidate_count = 0;
    downset_walk_up(&nodes->walk, to);
    bool more = orders->graph->is_reduced || downset_walk_next(&nodes->walk, &to);
    for (; more && !nodes->chain.failed; more = downset_walk_next(&nodes->walk, &to)) {
        pairs++;
        if (orders->has_bounds && orders->best.value_ns != NO_ORDER
            && order_least_ns(orders, node->to, to) >= orders->best.value_ns) {
            downset_walk_prune(&nodes->walk);
            continue;
        }
        const uint64_t own = expected(nodes, node->stages, to, node->before_ns);
        if (own != NO_ORDER && own >= node->from_ns && own < orders->best.value_ns)
            note_candidate(nodes, to, own);
    }
    orders->coupled->work += 1 + pairs / 16;
}

// Those of the stages that may follow whose bounds are the least, unpriced; for the others
// the node comes again.
static void add_stages(struct nodes *nodes, uint32_t index)
{
    struct order_open *open = &nodes->open;
    const struct order_node node = open->nodes[index];
    list_candidates(nodes, &node);
    uint64_t least = NO_ORDER, rest = NO_ORDER;
    for (size_t i = 0; i < nodes->candidate_count; i++)
        least = smaller(least, nodes->candidates[i].bound_ns);
    const uint64_t until = larger(least, node.bound_ns) + least / AT_ONCE;
    for (size_t i = 0; i < nodes->candidate_count && !nodes->chain.failed; i++) {
        const struct candidate candidate = nodes->candidates[i];
        const struct order_node next = { .bound_ns = larger(candidate.bound_ns, node.bound_ns), .parent = index,
                                         .to = candidate.to, .stages = node.stages + 1 };
        if (candidate.bound_ns > until)
            rest = smaller(rest, candidate.bound_ns);
        else if (!order_open_add(open, next))
            order_chain_no_memory(&nodes->chain);
    }
    if (rest == NO_ORDER || nodes->chain.failed)
        return;
    open->nodes[index].from_ns = until + 1;
    open->nodes[index].bound_ns = rest;
    order_open_again(open, index);
}

// Reads the stages of a node; its own only once it is priced.
static void read_stages(struct nodes *nodes, const struct order_node *node)
{
    struct orders *orders = nodes->orders;
    memset(nodes->chain.rows, 0, orders->stages * sizeof nodes->chain.rows[0]);
    for (const struct order_node *n = node; n->stages > 0; n = &nodes->open.nodes[n->parent])
        nodes->chain.at[n->stages] = n->to;
    for (const struct order_node *n = node; n->stages > 0; n = &nodes->open.nodes[n->parent]) {
        const uint32_t s = n->stages - 1;
        if (!n->is_priced)
            continue;
        struct order_stage *of = order_stage_of(orders, s, nodes->chain.at[s], n->to, nodes->chain.error);
        order_chain_set(&nodes->chain, s, of, n->least_ns);
    }
}

// Whether a chain may be better with what its last stage must recompute at least, which is known sooner than
// the ways to do it.
static bool may_be_better(struct nodes *nodes, struct order_node *node, struct order_stage *of)
{
    const uint64_t least = order_recompute_ns(nodes->orders, of->stage, of->from, of->to);
    if (least == NO_ORDER)
        return false;
    order_chain_set(&nodes->chain, of->stage, of, least);
    node->bound_ns = larger(node->bound_ns, order_chain_bound(&nodes->chain, of->stage));
    return node->bound_ns < nodes->orders->best.value_ns;
}

// What the last stage takes, with what it must recompute; false if it does not fit.
static bool price(struct nodes *nodes, struct order_node *node)
{
    struct orders *orders = nodes->orders;
    const uint32_t s = node->stages - 1;
    struct order_stage *of = order_stage_of(orders, s, nodes->chain.at[s], node->to, nodes->chain.error);
    if (of && !of->fits_as_it_is && !of->has_front && !may_be_better(nodes, node, of))
        return false;
    if (of && !of->fits_as_it_is) {
        of = order_front(orders, s, nodes->chain.at[s], node->to, nodes->chain.error);
        node->least_ns = of ? of->least_ns : 0;
    }
    nodes->chain.failed |= !of;
    if (nodes->chain.failed || node->least_ns == NO_ORDER)
        return false;
    order_chain_set(&nodes->chain, s, of, node->least_ns);
    node->is_priced = true;
    node->before_ns = nodes->open.nodes[node->parent].before_ns + pattern_round_ns(&nodes->chain.as[s]);
    node->bound_ns = larger(node->bound_ns, order_chain_bound(&nodes->chain, s));
    return true;
}

// Goes on with a node, or puts it back where others are more promising by now.
static void open_node(struct nodes *nodes, uint32_t index)
{
    struct order_open *open = &nodes->open;
    struct order_node *node = &open->nodes[index];
    read_stages(nodes, node);
    if (!nodes->chain.failed && !node->is_priced) {
        if (!price(nodes, node) || node->bound_ns >= nodes->orders->best.value_ns)
            return;
        if (open->heap.count > 0 && open->nodes[open->heap.nodes[0]].bound_ns < node->bound_ns) {
            order_open_again(open, index);
            return;
        }
    }
    if (nodes->chain.failed)
        return;
    if (node->stages == nodes->orders->stages)
        order_chain_finish(&nodes->chain, node->bound_ns);
    else
        add_stages(nodes, index);
}

static void search(struct nodes *nodes, uint64_t least_ns)
{
    struct orders *orders = nodes->orders;
    const struct order_node root = { .bound_ns = least_ns, .is_priced = true };
    uint32_t index;
    if (!order_open_add(&nodes->open, root))
        order_chain_no_memory(&nodes->chain);
    while (!nodes->chain.failed && order_open_next(&nodes->open, &index)) {
        const uint64_t bound = nodes->open.nodes[index].bound_ns;
        if (bound >= orders->best.value_ns)
            return;
        if (nodes->open.count > MOST_NODES || coupled_must_stop(orders->coupled)) {
            orders_lose(orders, bound);
            return;
        }
        open_node(nodes, index);
    }
}

bool order_nodes(struct orders *orders, uint64_t least_ns, struct error *error)
{
    struct nodes nodes = { .orders = orders };
    const bool good = order_chain_create(&nodes.chain, orders, error)
                   && downset_walk_create(&nodes.walk, orders->graph->downsets, error);
    if (good)
        search(&nodes, least_ns);
    const bool failed = !good || nodes.chain.failed;
    order_open_clear(&nodes.open);
    free(nodes.candidates);
    downset_walk_clear(&nodes.walk);
    order_chain_clear(&nodes.chain);
    return !failed;
}
