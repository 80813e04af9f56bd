// How much memory layers take as a stage, and the ways to recompute some of them. Both are worked out when first
// asked for, and then remembered in a table, which owns them.
#ifndef PARTITIONER_CUTS_STAGE_PRICE_H
#define PARTITIONER_CUTS_STAGE_PRICE_H

#include "partitioner/cuts/cut_problem.h"
#include "partitioner/search/recompute.h"

// A way to recompute. Segments count layers from the stage's first layer, which is 0.
struct stage_choice {
    uint64_t forward_ns;              // of recomputation, on the profile's device
    uint64_t bytes, workspace_bytes;  // bytes of the slab without the workspace, and of the workspace
    struct stage_away away;           // what goes to the host
    struct segment *segments;
    size_t count;
    uint32_t *layers;                 // the order of the stage's layers; NULL: ascending
};

struct stage_price {
    uint32_t stage, from, to;
    uint64_t bytes, workspace_bytes;  // if nothing is recomputed
    struct stage_away away;           // the same
    bool has_choices;                 // whether the following is worked out
    bool fits;                        // some way fits on the device by itself; if not, choices are about their bytes
    bool complete;                    // the list misses nothing
    uint64_t least_ns;                // of recomputation; no way takes less
    bool has_least_bytes, is_least;   // whether least_bytes is worked out, and whether it is proved least
    uint64_t least_bytes;             // the least memory in which the layers fit, however long the recomputation takes
    struct stage_choice *choices;     // ascending in time
    size_t count;
};

// The price with sizes only. NULL without memory.
struct stage_price *stage_price_of(struct cut_problem *problem, struct stage_table *table, uint32_t stage,
                                   uint32_t from, uint32_t to, struct error *error);

// The price with ways to recompute. In the table `narrow` this is the quickest way that fits, if a stage has its
// ranks to itself; otherwise a few of the ways that no other beats. In the table `exact` it is every way that can be
// part of a best plan. NULL without memory.
struct stage_price *stage_price_choices(struct cut_problem *problem, struct stage_table *table, uint32_t stage,
                                        uint32_t from, uint32_t to, struct error *error);

// If no way was found to fit layers of the table `narrow`, and they are in one order, searches for one as long as for
// a proof. With a small budget it does nothing. False only without memory.
bool stage_price_insist(struct cut_problem *problem, struct stage_price *price, struct error *error);

// A lower bound of the time that the layers spend on recomputation, by sums alone; NO_TIME if they do not fit. It is
// a Lagrangian bound: a layer is kept at so many ns per byte, or recomputed, whichever is cheaper, less the price of
// the bytes there are to spend. Inputs and workspaces of segments are left out, so that the bound is never above what
// is needed.
uint64_t stage_price_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// The same bound, or a better one that was found since.
uint64_t stage_price_known_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// Fills in `least_bytes`. False only without memory.
bool stage_price_find_least(struct cut_problem *problem, struct stage_price *price, struct error *error);

// An upper bound of the bytes of the layers with nothing recomputed, quick, by sums alone. UINT64_MAX: sums do not
// tell.
uint64_t stage_price_most_bytes(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

static inline bool stage_price_surely_fits(const struct cut_problem *problem, uint32_t stage, uint32_t from,
                                           uint32_t to)
{
    return stage_price_most_bytes(problem, stage, from, to) <= cut_capacity(problem, stage);
}

// Bytes of the weights of the layers between two places, and of all that goes with weights. A stage with more layers
// has at least as many.
uint64_t stage_price_states(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// The same with messages: all bytes that no way to recompute changes.
uint64_t stage_price_fixed(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

void stage_prices_clear(struct stage_table *table);

#endif
