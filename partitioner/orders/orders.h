// What the parts of a search over orders share.
//
//     order_plan.c     the whole: the profile's own order first, then all
//     orders.c         one graph's search: beginning, bounds, chains, end
//     order_each.c     each order by itself, where they are few and what is asked for is not plain
//     order_arranged.c a bound for that where they are many, whichever ranks hold a stage
//     order_linear.c   good orders to begin with, where there are too many to try them all
//     order_graph.c    blocks and downsets
//     order_stage.c    what the layers between two downsets take as a stage
//     order_quickest.c what they recompute, where less time is all that counts: all orders in one walk
//     order_lattice.c  the downsets between two as ways to order a stage's layers, for that
//     order_walk.c     and the walk
//     order_floor.c    what they recompute at least, in whichever order they stand
//     order_tables.c   bounds on what the stages on either side of a downset can do
//     order_net.c      the stages that plans below a limit may have
//     order_loops.c    a bound, and better plans, by ruling out what loops through stages take
//     order_paths.c    the same, to the end or not, by mixtures of paths that price every stage by itself
//     order_box.c      a part of all chains, for that
//     order_chain.c    the plans of one chain of downsets
//     order_nodes.c    chains of downsets, stage by stage, until none can be better
//     order_open.c     which chain comes next
//     order_moves.c    small moves of layers from stage to stage
//
// What a schedule does is read from its own actions, by coupled.h, which knows any.
#ifndef PARTITIONER_ORDERS_ORDERS_H
#define PARTITIONER_ORDERS_ORDERS_H

#include "partitioner/coupled/coupled.h"
#include "partitioner/orders/order_graph.h"
#include "partitioner/search/pattern.h"

#define NO_ORDER UINT64_MAX  // no way, or no plan so far

// A way to recompute: in which order the stage's layers stand, and which segments of
// them are run again, by their places in the stage.
struct order_choice {
    uint64_t forward_ns, bytes, workspace_bytes;  // as in recompute.h
    uint32_t *layers;
    struct segment *segments;
    size_t count;
};

// The layers of downset `to` that are not in `from`, as a stage.
struct order_stage {
    uint32_t stage, from, to;
    uint32_t layer_count;
    uint64_t bytes, workspace_bytes;  // with nothing recomputed, the layers as in the profile
    bool fits_as_it_is;               // alone on its rank
    bool has_front;                   // whether what follows is worked out
    bool complete;                    // nothing is missing: all orders of its layers, all segments of each
    struct order_choice *at;
    size_t count;
    uint64_t least_ns;                // of recomputation, on the profile's device; NO_ORDER: nothing fits
};

// The best plan so far: stage s is places [cuts[s], cuts[s + 1]) of the order.
struct order_best {
    uint64_t value_ns;  // NO_ORDER: none
    bool is_set;        // whether the rest is; else the value is of a plan that somebody else has
    uint32_t *order, *cuts;
    struct segment **segments;
    size_t *segment_count;
};

struct orders {
    const struct search_request *request;
    struct order_graph *graph;
    struct profile *together;         // the profile with its blocks together, which `coupled` is of
    struct search_request of_together;
    struct coupled *coupled;
    struct pattern pattern;           // is_known where its bounds hold; asynchronous: of a run that goes on
    bool has_bounds;                  // some bound holds: of the pattern, or of what flushes
    struct pattern_room *room;
    bool only_bounds;                 // what stages take is not known here, only that it is no less
    bool shares_ranks;                // a rank has several stages
    uint32_t stages, downsets;
    uint64_t speed;                   // the fastest
    struct coupled_work *busiest;     // of each stage: what the rank does that does most for it
    struct coupled_work least;        // that any stage has of each
    struct order_floor *floor;        // NULL where nothing is known of it
    struct stage_table known;         // order_stages, by stage, from and to
    // [s * downsets + d]; where there are bounds
    uint64_t *before;   // of the first s stages, up to d: the least sum of rounds
    uint64_t *behind;   // of stages s on, from d on: likewise
    uint64_t *slowest;  //   the least of the largest F + B
    uint64_t *tail;     //   the least of the largest stage bound
    bool *is_closed;    // whether no stages from there on can be part of a better plan (order_loops.c)
    uint64_t lost_ns;   // the least bound of what was given up without being looked at
    struct order_best best;
};

// Whether the ways to arrange stages are one; and to hold states the usual one, too: what order_stage.c
// prices. All else only takes longer than that, or is searched order by order.
bool orders_is_arranged(const struct search_request *request);
bool orders_is_plain(const struct search_request *request);

// With at most so many downsets, or, `coarse`, any number of them in groups, for bounds.
// NULL without an error where the graph has more.
enum orders_graph { ORDERS_AS_IS, ORDERS_REDUCED, ORDERS_COARSE };
struct orders *orders_create(const struct search_request *request, enum orders_graph graph, size_t most,
                             struct error *error);
void orders_free(struct orders *orders);

// Goes through all chains that could be better than `best`, which is made better;
// *bound_ns is what no plan of any order can beat, NO_ORDER where none is better.
bool orders_search(struct orders *orders, uint64_t *bound_ns, struct error *error);

static inline void orders_lose(struct orders *orders, uint64_t bound_ns)
{
    orders->lost_ns = bound_ns < orders->lost_ns ? bound_ns : orders->lost_ns;
}

static inline size_t order_cell(const struct orders *orders, uint32_t s, uint32_t d)
{
    return (size_t)s * orders->downsets + d;
}

// What the layers of `to` have that are not in `from`; of a coarse graph no more than that.
static inline uint64_t order_sum(const struct orders *orders, enum order_sum sum, uint32_t from, uint32_t to)
{
    const uint64_t *most = orders->graph->downsets ? orders->graph->sums[sum] : orders->graph->most[sum];
    const uint64_t least = orders->graph->sums[sum][to];
    return least > most[from] ? least - most[from] : 0;
}

// The row of a stage, and the stage as pattern.h knows it.
struct cost_row order_row(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                          uint64_t recompute_ns);
struct pattern_stage order_pattern_stage(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                                         uint64_t recompute_ns);

// What these layers take; order_front() with the ways to recompute. NULL without memory.
struct order_stage *order_stage_of(struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                                   struct error *error);
struct order_stage *order_front(struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                                struct error *error);

// The profile with the layers of `from` first, of which there are so many, then these, then the rest.
struct profile *order_view(const struct orders *orders, uint32_t from, uint32_t to, const uint32_t *layers,
                           uint32_t count, struct error *error);
uint32_t order_places_before(const struct orders *orders, uint32_t from);

// Fills in of all orders of a stage's `layers`, which stand as in the profile, the way that takes least; *done where
// there is no more to find out than that.
bool order_quickest(struct orders *orders, struct order_stage *of, const uint32_t *layers, bool *done,
                    struct error *error);

// What these layers spend on recomputation at least, on the profile's device, in whichever order they stand;
// NO_ORDER where they do not fit.
bool order_floor_create(struct orders *orders, struct error *error);
void order_floor_free(struct order_floor *floor);
uint64_t order_recompute_ns(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to);

// The least memory of the ranks that hold a stage.
uint64_t order_capacity(const struct orders *orders, uint32_t stage);

// Fills the tables for plans below `limit_ns`; *whole is false where that takes too long,
// and then they are of no use.
bool order_tables_fill(struct orders *orders, uint64_t limit_ns, bool *whole, struct error *error);

// Whether a stage may end at this downset. Where the graph is reduced, the last ones may be empty.
static inline bool order_may_end(const struct orders *orders, uint32_t stage, uint32_t to)
{
    const struct order_graph *graph = orders->graph;
    const bool is_all = to + 1 == orders->downsets, is_last = stage + 1 == orders->stages;
    if (is_all != is_last && (is_last || !graph->is_reduced))
        return false;
    return !graph->most_in || (stage < graph->most_in[to] && orders->stages - stage - 1 <= graph->most_out[to]);
}

// The least that a stage of these layers can take alone, whichever it is.
uint64_t order_least_ns(const struct orders *orders, uint32_t from, uint32_t to);

// A bound on all plans with this stage, whose stages before it take `before_ns` at least.
uint64_t order_stage_bound(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                           const struct pattern_stage *as, uint64_t before_ns);

// Raises a bound that no chain can beat as far as targets can be ruled out, and looks for plans at
// those that cannot, until so much work is done; notes what is closed. Wants the tables.
bool order_loops(struct orders *orders, uint64_t until, uint64_t *bound_ns, struct error *error);

// Raises a bound as far as mixtures of paths do, of all chains and of ever smaller parts of them,
// and finds better plans, until so much work is done. Wants the tables.
bool order_paths(struct orders *orders, uint64_t until, uint64_t *bound_ns, struct error *error);

// Tries all chains of downsets that could be better than the best, and none is better than
// `least_ns`; what is left out is noted as lost.
bool order_nodes(struct orders *orders, uint64_t least_ns, struct error *error);

#endif
