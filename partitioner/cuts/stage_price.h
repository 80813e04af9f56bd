// What layers take as a stage in memory, and the ways to recompute some of them: worked out when first asked for, and
// then remembered.
#ifndef PARTITIONER_CUTS_STAGE_PRICE_H
#define PARTITIONER_CUTS_STAGE_PRICE_H

#include "partitioner/cuts/cut_problem.h"
#include "partitioner/search/recompute.h"

// A way to recompute. Segments are by places in the stage, 0 its first layer.
struct stage_choice {
    uint64_t forward_ns;              // of recomputation, on the profile's device
    uint64_t bytes, workspace_bytes;  // of the slab, without the workspace; and the workspace
    struct stage_away away;           // with the host
    struct segment *segments;
    size_t count;
    uint32_t *layers;                 // the order in which they stand; NULL: ascending
};

struct stage_price {
    uint32_t stage, from, to;
    uint64_t bytes, workspace_bytes;  // with nothing recomputed
    struct stage_away away;           // likewise
    bool has_choices;                 // whether what follows is worked out
    bool fits;                        // some way fits on the device by itself; if not, the choices are about the bytes
    bool complete;                    // nothing is missing
    uint64_t least_ns;                // of recomputation; no way takes less
    bool has_least_bytes, is_least;   // whether this is worked out, and whether less might do:
    uint64_t least_bytes;             // what fits the layers at least, whatever it takes to recompute
    struct stage_choice *choices;     // ascending in time
    size_t count;
};

// Sizes only. NULL without memory.
struct stage_price *stage_price_of(struct cut_problem *problem, struct stage_table *table, uint32_t stage, uint32_t from,
                                   uint32_t to, struct error *error);

// With ways to recompute. Of the table `narrow`: the quickest that fits where a stage has its ranks to itself, a few of
// those that no other beats where it has not. Of `exact`: every way that can be part of a best plan.
struct stage_price *stage_price_choices(struct cut_problem *problem, struct stage_table *table, uint32_t stage,
                                        uint32_t from, uint32_t to, struct error *error);

// Where no way was found to fit layers of the table `narrow`, in one order, looks for one as long as for a proof. Of a
// small budget nothing more.
bool stage_price_insist(struct cut_problem *problem, struct stage_price *price, struct error *error);

// What the layers spend on recomputation at least, by sums alone; NO_TIME where they do not fit. A Lagrangian bound: a
// layer is kept at so many ns per byte, or run again, whichever is cheaper, less the price of what there is to spend.
// Segments' inputs and workspaces are left out, so that it is never above what is needed.
uint64_t stage_price_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// The same, or what was found out since.
uint64_t stage_price_known_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// Fills in what fits the layers at least. False only without memory.
bool stage_price_find_least(struct cut_problem *problem, struct stage_price *price, struct error *error);

// What the layers take with nothing recomputed, or more, by sums alone: quick. UINT64_MAX: sums do not say.
uint64_t stage_price_most_bytes(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

static inline bool stage_price_surely_fits(const struct cut_problem *problem, uint32_t stage, uint32_t from,
                                           uint32_t to)
{
    return stage_price_most_bytes(problem, stage, from, to) <= cut_capacity(problem, stage);
}

// Bytes of the weights, and all that goes with them, of the layers between two places: a stage with more has no less.
uint64_t stage_price_states(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

// These, with messages: all that no way to recompute changes.
uint64_t stage_price_fixed(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to);

void stage_prices_clear(struct stage_table *table);

#endif
