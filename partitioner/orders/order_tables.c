// Bounds on what the stages on either side of a downset can do, as search_tables.h has
// them for places to cut: by dynamic programming over pairs of downsets, every quantity
// for itself, with the least that any order of a stage's layers must recompute.
//
//     forwards     before[s + 1][to] = least over from of before[s][from] + round of the stage
//     backwards    tail[s][from] = least over to of the larger of its bound and tail[s + 1][to]
//
// Stages whose work alone takes as long as the best plan need not be looked at, nor any
// that hold more.
#include <stdlib.h>

#include "partitioner/orders/orders.h"

// Pairs times stages beyond which it takes too long, and the work of as many as one unit.
#define MOST_PAIRS 400000000
#define PAIRS_PER_UNIT 256

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// --- bounds -----------------------------------------------------------------------------

// What a rank takes that does this work for a stage.
static uint64_t busy_ns(const struct orders *orders, const struct coupled_work *work, uint64_t speed, uint32_t from,
                        uint32_t to)
{
    return stage_scaled_ns(work->forwards * order_sum(orders, SUM_FORWARD, from, to)
                               + work->backwards * order_sum(orders, SUM_BACKWARD, from, to)
                               + work->inputs * order_sum(orders, SUM_BACKWARD_INPUT, from, to)
                               + work->weights * order_sum(orders, SUM_BACKWARD_WEIGHT, from, to), speed);
}

uint64_t order_stage_bound(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                           const struct pattern_stage *as, uint64_t before_ns)
{
    const uint64_t behind = orders->behind[order_cell(orders, stage + 1, to)];
    if (behind == NO_ORDER || before_ns == NO_ORDER)
        return NO_ORDER;
    if (orders->pattern.is_known) {
        const uint64_t way = pattern_round_ns(as) - as->forward_ns - as->backward_ns;
        return pattern_stage_bound(&orders->pattern, stage, as, before_ns, way + behind);
    }
    // The way in, of one micro-batch, and the work; a part of a micro-batch goes in sooner.
    const uint64_t way = orders->coupled->order->splits == 1
                             ? stage_scaled_ns(order_sum(orders, SUM_FORWARD, 0, from), orders->speed) : 0;
    return way + busy_ns(orders, &orders->busiest[stage], orders->coupled->speed[stage], from, to);
}

uint64_t order_least_ns(const struct orders *orders, uint32_t from, uint32_t to)
{
    return busy_ns(orders, &orders->least, orders->speed, from, to);
}

// --- filling ------------------------------------------------------------------------------

struct filling {
    struct orders *orders;
    uint64_t limit_ns, pairs;
    bool whole;
};

static void use_before(struct orders *orders, uint32_t from, uint32_t to)
{
    for (uint32_t s = 0; s < orders->stages; s++) {
        const uint64_t before = orders->before[order_cell(orders, s, from)];
        const bool may = order_may_end(orders, s, to) && !orders->is_closed[order_cell(orders, s + 1, to)];
        const uint64_t least = before == NO_ORDER || !may ? NO_ORDER : order_recompute_ns(orders, s, from, to);
        if (least == NO_ORDER)
            continue;
        const struct pattern_stage as = order_pattern_stage(orders, s, from, to, least);
        uint64_t *cell = &orders->before[order_cell(orders, s + 1, to)];
        *cell = smaller(*cell, before + pattern_round_ns(&as));
    }
}

static void use_behind(struct orders *orders, uint64_t limit_ns, uint32_t from, uint32_t to)
{
    for (uint32_t s = orders->stages; s-- > 0;) {  // downwards, since an empty stage needs the one behind it
        const size_t cell = order_cell(orders, s, from), next = order_cell(orders, s + 1, to);
        if (orders->before[cell] == NO_ORDER || orders->tail[next] == NO_ORDER || !order_may_end(orders, s, to)
            || orders->is_closed[next])
            continue;
        const uint64_t least = order_recompute_ns(orders, s, from, to);
        if (least == NO_ORDER)
            continue;
        const struct pattern_stage as = order_pattern_stage(orders, s, from, to, least);
        const uint64_t bound = order_stage_bound(orders, s, from, to, &as, orders->before[cell]);
        if (bound >= limit_ns)
            continue;
        const uint64_t work = as.forward_ns + as.backward_ns;
        orders->behind[cell] = smaller(orders->behind[cell], orders->behind[next] + pattern_round_ns(&as));
        orders->slowest[cell] = smaller(orders->slowest[cell], larger(orders->slowest[next], work));
        orders->tail[cell] = smaller(orders->tail[cell], larger(orders->tail[next], bound));
    }
}

// All pairs of which one end is this downset.
static void visit(struct filling *filling, struct downset_walk *walk, uint32_t from, bool forwards)
{
    struct orders *orders = filling->orders;
    uint32_t to;
    if (orders->graph->is_reduced && forwards)
        use_before(orders, from, from);
    downset_walk_up(walk, from);
    while (downset_walk_next(walk, &to)) {
        filling->pairs++;
        if (filling->limit_ns != NO_ORDER && order_least_ns(orders, from, to) >= filling->limit_ns)
            downset_walk_prune(walk);
        else if (forwards)
            use_before(orders, from, to);
        else
            use_behind(orders, filling->limit_ns, from, to);
    }
    if (orders->graph->is_reduced && !forwards)
        use_behind(orders, filling->limit_ns, from, from);
}

// The same where they are groups in order of their work.
static void visit_groups(struct filling *filling, uint32_t from, bool forwards)
{
    struct orders *orders = filling->orders;
    for (uint32_t to = orders->downsets; to-- > from + 1 && !forwards;)
        if (order_least_ns(orders, from, to) < filling->limit_ns)
            use_behind(orders, filling->limit_ns, from, to);
    if (!forwards)
        use_behind(orders, filling->limit_ns, from, from);
    for (uint32_t to = from; to < orders->downsets && forwards; to++)
        if (order_least_ns(orders, from, to) < filling->limit_ns)
            use_before(orders, from, to);
    filling->pairs += orders->downsets - from;
}

static bool goes_on(struct filling *filling)
{
    struct coupled *coupled = filling->orders->coupled;
    filling->whole = filling->pairs * filling->orders->stages < MOST_PAIRS && !coupled_must_stop(coupled);
    return filling->whole;
}

static void begin(struct orders *orders)
{
    const size_t cells = ((size_t)orders->stages + 1) * orders->downsets;
    for (size_t i = 0; i < cells; i++)
        orders->before[i] = orders->behind[i] = orders->slowest[i] = orders->tail[i] = NO_ORDER;
    const size_t last = order_cell(orders, orders->stages, orders->downsets - 1);
    orders->before[0] = orders->behind[last] = orders->slowest[last] = orders->tail[last] = 0;
}

bool order_tables_fill(struct orders *orders, uint64_t limit_ns, bool *whole, struct error *error)
{
    struct filling filling = { .orders = orders, .limit_ns = limit_ns, .whole = true };
    struct downset_walk walk = { 0 };
    const struct downsets *downsets = orders->graph->downsets;
    if (downsets && !downset_walk_create(&walk, downsets, error))
        return false;
    begin(orders);
    for (uint32_t turn = 0; turn < 2 * orders->downsets && goes_on(&filling); turn++) {
        const bool forwards = turn < orders->downsets;
        const uint32_t d = forwards ? turn : 2 * orders->downsets - 1 - turn;
        if (downsets)
            visit(&filling, &walk, d, forwards);
        else
            visit_groups(&filling, d, forwards);
    }
    downset_walk_clear(&walk);
    orders->coupled->work += filling.pairs * orders->stages / PAIRS_PER_UNIT;
    *whole = filling.whole;
    return true;
}
