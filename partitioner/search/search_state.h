// What the parts of a search share: the problem, its tables, the simulators, the
// best plan so far.
//
//     search.c         the whole, and the plan that comes of it
//     search_first.c   a first good plan: straight by bounds, then small moves
//     search_loops.c   a bound, and better plans, by ruling out what loops through stages take
//     search_seeds.c   the same from even stages, where memory is tight
//     search_nodes.c   nodes in order of their bounds, until none is left
//     search_async.c   what is known where the objective is a difference of times
#ifndef PARTITIONER_SEARCH_SEARCH_STATE_H
#define PARTITIONER_SEARCH_SEARCH_STATE_H

#include "partitioner/search/search_tables.h"
#include "schedules/simulate.h"

// A complete decision. Arrays of the search's ranks; cuts has one more.
struct decision {
    uint32_t *cuts;          // stage s is layers [cuts[s], cuts[s + 1])
    uint64_t *forward_ns;    // what it spends on recomputation, on the profile's device
    uint64_t *recompute_ns;  // and on its own
};

struct search {
    struct problem *problem;
    struct tables tables;
    struct simulator *simulators[2];  // of an iteration; asynchronous: of 3m and of 2m micro-batches
    uint64_t actions;                 // that both simulate together
    struct cost_row *rows;
    struct pattern_room *room;        // for the micro-batches of an iteration, or of two
    struct pattern_stage *stages;     // of the plan that is looked at
    struct pattern pattern_2m, pattern_3m;  // asynchronous
    bool can_extend;                  // whether async_bound() holds
    struct decision best;
    uint64_t best_ns;                 // NO_WAY: none yet
    uint64_t lost_ns;                 // least bound of what was given up without being looked at
    uint64_t floor_ns;                // no plan takes less
};

bool decision_create(struct decision *decision, uint32_t ranks, struct error *error);
void decision_clear(struct decision *decision);
void decision_copy(struct decision *to, const struct decision *from, uint32_t ranks);

// The objective of a decision; remembers it if it is the best so far (ties: the
// lexicographically smaller cuts, then less recomputed).
uint64_t search_score(struct search *search, const struct decision *decision);

void search_lose(struct search *search, uint64_t bound_ns);

// Tries plans of even stages (search_seeds.c), and small moves from them.
bool search_seeds(struct search *search, struct error *error);

// Finds a good plan quickly, or none.
bool search_first(struct search *search, struct error *error);

// Small moves of a decision's cuts, as long as they help; `decision` is where that ends.
bool search_descend(struct search *search, struct decision *decision, struct error *error);

// Raises a bound that no plan can beat as far as targets can be ruled out, and looks for
// plans at those that cannot, until so much work is done. The tables learn which places
// are no part of a plan better than the best.
bool search_loops(struct search *search, uint64_t until, uint64_t *bound_ns, struct error *error);

// Opens nodes, from the last stage or from the first, until none is left whose bound
// is below the best; *least_open_ns is the least bound left, NO_WAY if none is.
bool search_nodes(struct search *search, bool from_last, uint64_t *least_open_ns, struct error *error);

// Asynchronous schedules. A bound on the objective of every plan whose first stage is this.
uint64_t async_first_bound(const struct search *search, const struct pattern_stage *first);

// Tries all ways to recompute under these cuts, whose quickest ones `decision` holds;
// none of them has a smaller objective than `bound_ns`.
bool async_leaf(struct search *search, const struct decision *decision, uint64_t bound_ns, struct error *error);

#endif
