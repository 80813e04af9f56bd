// What loops through stages say of all orders, as search_loops.c has it of one: the largest
// target that no chain of downsets keeps below is a bound, and the chain that is left over just
// above it a good plan. Places to cut are downsets; of a coarse graph, groups of them, and then
// there is only the bound.
#include <stdlib.h>

#include "partitioner/orders/order_chain.h"
#include "partitioner/orders/order_net.h"
#include "partitioner/search/loop_places.h"

// Places times stages beyond which it takes too much memory.
#define MOST_PLACES 150000

struct loops {
    struct orders *orders;
    struct order_net net;
    struct loop_place *places;  // as the cells of the tables
    struct loop_target target;
    struct order_chain chain;
    uint64_t until;             // work that it may take
    struct error *error;
};

static size_t place_count(const struct orders *orders)
{
    return ((size_t)orders->stages + 1) * orders->downsets;
}

// Whether any plan may take less than the target.
static bool can_reach(void *self, uint64_t target_ns)
{
    struct loops *loops = self;
    struct orders *orders = loops->orders;
    const size_t last = order_cell(orders, orders->stages, orders->downsets - 1);
    loop_target_set(&loops->target, target_ns, orders->before[last]);
    for (size_t i = 0; i < place_count(orders); i++)
        loops->places[i].count = 0;
    loops->places[last] = loop_place_last();
    uint64_t labels = loops->net.count / 8;
    for (uint32_t s = orders->stages; s-- > 0;) {
        for (size_t i = 0; i < loops->net.rows[s].count; i++) {
            const struct order_edge *edge = &loops->net.rows[s].at[i];
            const struct loop_place *from = &loops->places[order_cell(orders, s + 1, edge->to)];
            labels += edge->edge.bound < target_ns ? from->count : 0;
            if (from->count > 0 && edge->edge.bound < target_ns)
                loop_place_extend(&loops->target, s, &edge->edge, edge->to, from,
                                  &loops->places[order_cell(orders, s, edge->from)]);
        }
    }
    orders->coupled->work += 1 + labels / 24;
    return loops->places[0].count > 0;
}

static bool must_stop(const void *self)
{
    const struct loops *loops = self;
    return loops->orders->coupled->work > loops->until || coupled_must_stop(loops->orders->coupled);
}

// False if the best plan itself is ruled out.
static bool rule_out(struct loops *loops, uint64_t *low_ns)
{
    const struct loop_asker asker = { loops, can_reach, must_stop };
    return loop_target_raise(&asker, loops->orders->best.value_ns, low_ns);
}

static void read_chain(struct loops *loops)
{
    const struct orders *orders = loops->orders;
    uint32_t at = 0;
    for (uint32_t s = 0; s < orders->stages; s++) {
        const struct loop loop = loops->places[order_cell(orders, s, loops->chain.at[s])].loops[at];
        loops->chain.at[s + 1] = loop.end;
        at = loop.next;
    }
}

// Whether the chain is what it looked like: nothing new came out about what its stages must
// recompute. `fits` where there is a plan of it at all.
static bool price_chain(struct loops *loops, bool *as_known, bool *fits)
{
    struct orders *orders = loops->orders;
    const uint32_t *at = loops->chain.at;
    *as_known = *fits = true;
    for (uint32_t s = 0; s < orders->stages; s++) {
        struct order_stage *of = order_stage_of(orders, s, at[s], at[s + 1], loops->error);
        if (of && !of->fits_as_it_is)
            of = order_front(orders, s, at[s], at[s + 1], loops->error);
        if (!of)
            return false;
        const uint64_t least = of->fits_as_it_is ? 0 : of->least_ns;
        *fits &= least != NO_ORDER;
        order_chain_set(&loops->chain, s, of, least == NO_ORDER ? 0 : least);
        *as_known &= !order_net_reprice(&loops->net, orders, s, at[s], at[s + 1], least);
    }
    return true;
}

// The plans of the chain that was read off; what of them is left out is no loss, since more is looked at later.
static bool try_chain(struct loops *loops)
{
    const uint64_t lost = loops->orders->lost_ns;
    order_chain_finish(&loops->chain, 0);
    loops->orders->lost_ns = lost;
    return !loops->chain.failed;
}

// Plans that are not ruled out are priced until they are what they looked like.
static bool raise_bound(struct loops *loops, uint64_t *bound_ns)
{
    bool as_known = false, fits;
    while (!as_known && rule_out(loops, bound_ns)) {
        if (loops->orders->only_bounds || must_stop(loops))
            return true;
        read_chain(loops);
        if (!price_chain(loops, &as_known, &fits) || (fits && !try_chain(loops)))
            return false;
    }
    return true;
}

static void close_places(struct loops *loops)
{
    struct orders *orders = loops->orders;
    can_reach(loops, orders->best.value_ns);
    for (size_t i = 0; i < place_count(orders); i++)
        orders->is_closed[i] = loops->places[i].count == 0;
}

bool order_loops(struct orders *orders, uint64_t until, uint64_t *bound_ns, struct error *error)
{
    struct loops loops = { .orders = orders, .until = until, .error = error };
    bool whole = place_count(orders) <= MOST_PLACES && orders->best.value_ns != NO_ORDER;
    if (!whole)
        return true;
    loops.places = malloc(place_count(orders) * sizeof loops.places[0]);
    bool good = loops.places || error_no_memory(error, "a search");
    good = good && order_net_create(&loops.net, orders, orders->best.value_ns, &whole, error)
        && loop_target_create(&loops.target, &orders->pattern, error)
        && order_chain_create(&loops.chain, orders, error) && (!whole || raise_bound(&loops, bound_ns));
    if (good && whole && *bound_ns < orders->best.value_ns)
        close_places(&loops);
    order_chain_clear(&loops.chain);
    loop_target_clear(&loops.target);
    order_net_clear(&loops.net);
    free(loops.places);
    return good;
}
