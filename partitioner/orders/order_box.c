#include "partitioner/orders/order_box.h"

// How often a box's bound is tried to be raised by loops, each time by half of what is left.
enum { LOOP_TRIALS = 3 };

// Stages beyond which loops take longer than they are worth.
#define MOST_LOOPED 10000

// --- what loops leave ---------------------------------------------------------------------

static void forget_ways(struct paths *paths, const struct box *box, uint64_t *ways)
{
    for (uint32_t s = 0; s <= paths->orders->stages; s++)
        for (uint32_t place = box->from[s]; place <= box->to[s]; place++)
            ways[order_cell(paths->orders, s, place)] = NO_ORDER;
}

// The stages that chains of the box may have.
static void list_offers(struct paths *paths, const struct box *box)
{
    const struct orders *orders = paths->orders;
    size_t count = 0;
    for (uint32_t s = 0; s < orders->stages; s++) {
        const struct order_row *row = &paths->net.rows[s];
        paths->offer_at[s] = count;
        for (size_t i = 0; i < row->count; i++) {
            struct order_edge *edge = &row->at[i];
            if (!box_holds(box, s, edge->from) || !box_holds(box, s + 1, edge->to)
                || edge->edge.bound >= orders->best.value_ns)
                continue;
            struct offer *offer = &paths->offers[count++];
            *offer = (struct offer){ .from = edge->from, .to = edge->to, .edge = edge };
            path_parts(&edge->edge.stage, offer->parts);
        }
    }
    paths->offer_at[orders->stages] = count;
    orders->coupled->work += 1 + paths->net.count / 128;
}

static struct loop_place *loops_at(const struct paths *paths, uint32_t s, uint32_t place)
{
    return &paths->loops[order_cell(paths->orders, s, place)];
}

// An offer with what is known of its surroundings in the box; false where nothing is before or behind it.
static bool read_edge(const struct paths *paths, uint32_t s, const struct offer *offer, struct table_edge *edge)
{
    *edge = offer->edge->edge;
    edge->before = paths->rounds_ahead[order_cell(paths->orders, s, offer->from)];
    edge->behind = paths->rounds_behind[order_cell(paths->orders, s + 1, offer->to)];
    return edge->before != NO_ORDER && edge->behind != NO_ORDER;
}

// The least sums of rounds before and behind each place.
static void sum_rounds(struct paths *paths, const struct box *box)
{
    const struct orders *orders = paths->orders;
    const uint32_t stages = orders->stages;
    forget_ways(paths, box, paths->rounds_ahead);
    forget_ways(paths, box, paths->rounds_behind);
    paths->rounds_ahead[0] = paths->rounds_behind[order_cell(orders, stages, orders->downsets - 1)] = 0;
    for (uint32_t turn = 0; turn < 2 * stages; turn++) {
        const bool forwards = turn < stages;
        const uint32_t s = forwards ? turn : 2 * stages - 1 - turn;
        for (size_t i = paths->offer_at[s]; i < paths->offer_at[s + 1]; i++) {
            const struct offer *offer = &paths->offers[i];
            const size_t from = order_cell(orders, s, offer->from), to = order_cell(orders, s + 1, offer->to);
            const uint64_t known = forwards ? paths->rounds_ahead[from] : paths->rounds_behind[to];
            uint64_t *way = forwards ? &paths->rounds_ahead[to] : &paths->rounds_behind[from];
            if (known != NO_ORDER && known + offer->edge->edge.round < *way)
                *way = known + offer->edge->edge.round;
        }
    }
}

// Whether a chain may take less than the target.
static bool can_reach(struct paths *paths, const struct box *box, uint64_t target_ns)
{
    const struct orders *orders = paths->orders;
    const uint32_t stages = orders->stages;
    uint64_t labels = paths->offer_at[stages] / 8;
    loop_target_set(&paths->target, target_ns, paths->rounds_behind[0]);
    for (uint32_t s = 0; s <= stages; s++)
        for (uint32_t place = box->from[s]; place <= box->to[s]; place++)
            loops_at(paths, s, place)->count = 0;
    *loops_at(paths, stages, orders->downsets - 1) = loop_place_last();
    for (uint32_t s = stages; s-- > 0;) {
        for (size_t i = paths->offer_at[s]; i < paths->offer_at[s + 1]; i++) {
            const struct offer *offer = &paths->offers[i];
            const struct loop_place *from = loops_at(paths, s + 1, offer->to);
            struct table_edge edge;
            labels += from->count;
            if (from->count > 0 && read_edge(paths, s, offer, &edge))
                loop_place_extend(&paths->target, s, &edge, offer->to, from, loops_at(paths, s, offer->from));
        }
    }
    orders->coupled->work += 1 + labels / 24;
    return loops_at(paths, 0, 0)->count > 0;
}

// Leaves stages out from which loops lead to no chain below the best plan.
static void leave_closed(struct paths *paths)
{
    const struct orders *orders = paths->orders;
    size_t kept = 0;
    for (uint32_t s = 0; s < orders->stages; s++) {
        size_t i = paths->offer_at[s];
        paths->offer_at[s] = kept;
        for (; i < paths->offer_at[s + 1]; i++) {
            const struct offer offer = paths->offers[i];
            struct table_edge edge;
            if (loops_at(paths, s, offer.from)->count > 0 && loops_at(paths, s + 1, offer.to)->count > 0
                && read_edge(paths, s, &offer, &edge)
                && pattern_stage_bound(&orders->pattern, s, &edge.stage, edge.before, edge.way + edge.behind)
                       < orders->best.value_ns)
                paths->offers[kept++] = offer;
        }
    }
    paths->offer_at[orders->stages] = kept;
}

bool box_list(struct paths *paths, struct box *box)
{
    const uint64_t best = paths->orders->best.value_ns;
    list_offers(paths, box);
    if (!box->asks_loops || paths->offer_at[paths->orders->stages] > MOST_LOOPED)
        return true;
    sum_rounds(paths, box);
    if (paths->rounds_behind[0] == NO_ORDER || !can_reach(paths, box, best))
        return false;
    leave_closed(paths);
    sum_rounds(paths, box);
    uint64_t high = best;
    for (unsigned trial = 0; trial < LOOP_TRIALS && box->bound_ns + best / 4096 < high; trial++) {
        const uint64_t target = box->bound_ns + (high - box->bound_ns) / 2;
        if (can_reach(paths, box, target))
            high = target;
        else
            box->bound_ns = target;
    }
    return true;
}

// --- the cheapest chain ---------------------------------------------------------------------

// From the last stage up: the cheapest way from every place to the end. What the cheapest chain costs at
// these prices, or NO_ORDER.
uint64_t box_find_cheapest(struct paths *paths, const struct box *box, const uint64_t *prices)
{
    const struct orders *orders = paths->orders;
    forget_ways(paths, box, paths->behind);
    paths->behind[order_cell(orders, orders->stages, orders->downsets - 1)] = 0;
    for (uint32_t s = orders->stages; s-- > 0;) {
        const uint64_t *price = &prices[s * PATH_PARTS];
        for (size_t i = paths->offer_at[s]; i < paths->offer_at[s + 1]; i++) {
            struct offer *offer = &paths->offers[i];
            const uint64_t rest = paths->behind[order_cell(orders, s + 1, offer->to)];
            offer->price = 0;
            for (unsigned part = 0; part < PATH_PARTS; part++)
                offer->price += price[part] * offer->parts[part];
            uint64_t *way = &paths->behind[order_cell(orders, s, offer->from)];
            if (rest == NO_ORDER || rest + offer->price >= *way)
                continue;
            *way = rest + offer->price;
            paths->next[order_cell(orders, s, offer->from)] = (uint32_t)i;
        }
    }
    orders->coupled->work += 1 + paths->offer_at[orders->stages] / 256;
    return paths->behind[0];
}

// Leaves stages out whose cheapest chain costs as much as the best plan takes.
void box_leave_dear(struct paths *paths, const struct box *box, uint64_t latency)
{
    const struct orders *orders = paths->orders;
    const uint64_t limit = (orders->best.value_ns - 1) << GAME_BITS;
    size_t kept = 0;
    forget_ways(paths, box, paths->ahead);
    paths->ahead[0] = latency;
    for (uint32_t s = 0; s < orders->stages; s++) {
        size_t i = paths->offer_at[s];
        paths->offer_at[s] = kept;
        for (; i < paths->offer_at[s + 1]; i++) {
            const struct offer offer = paths->offers[i];
            const uint64_t before = paths->ahead[order_cell(orders, s, offer.from)];
            const uint64_t rest = paths->behind[order_cell(orders, s + 1, offer.to)];
            if (before == NO_ORDER || rest == NO_ORDER || before + offer.price + rest > limit)
                continue;
            uint64_t *way = &paths->ahead[order_cell(orders, s + 1, offer.to)];
            *way = before + offer.price < *way ? before + offer.price : *way;
            paths->offers[kept++] = offer;
        }
    }
    paths->offer_at[orders->stages] = kept;
    orders->coupled->work += kept / 256;
}

