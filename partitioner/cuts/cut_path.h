// The path of places whose costliest stage costs least: a minimax shortest path, found by dynamic programming over
// stages and places.
//
//     best[s + 1][to]  =  least over `from` of  max(best[s][from], cost of stage s from `from` to `to`)
//
// The exact cost of a stage can take long to work out, and most stages are on no good path. Costs are therefore lower
// bounds at first. The search finds the best path by them, works out the exact costs on that path, and repeats. When
// all costs on the best path are exact, no path is better (lazy evaluation of edges, as Dellin and Srinivasa call
// it).
#ifndef PARTITIONER_CUTS_CUT_PATH_H
#define PARTITIONER_CUTS_CUT_PATH_H

#include "partitioner/cuts/cut_problem.h"

struct path_prices {
    const void *self;
    // A lower bound of what the layers between two places cost as this stage; exact once worked out. It is at least
    // only_grows().
    uint64_t (*cost)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
    // A part of this cost that is never less for a stage with more layers.
    uint64_t (*only_grows)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
    // Works out the exact cost; *news: whether it differs from the cost so far. False with an error. NULL: all costs
    // are exact.
    bool (*work_out)(const void *self, uint32_t stage, uint32_t from, uint32_t to, bool *news, struct error *error);
    // Breaks ties: of paths with the same cost the one with the least sum of this is chosen. NULL: no such rule.
    uint64_t (*also)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
};

struct path {
    uint32_t *cuts;  // room for stages + 1 places; filled in
    uint64_t cost;   // of its costliest stage, as far as it is worked out; NO_TIME: there is no path
    bool is_least;   // no path costs less, or there is no path
};

// Finds the best of the paths that were worked out, in at most `rounds` rounds of working out costs, and within a
// part of the search. False only without memory.
bool cut_path_find(struct cut_problem *problem, const struct path_prices *prices, unsigned rounds,
                   const struct search_part *part, struct path *path, struct error *error);

#endif
