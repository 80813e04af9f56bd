// The row of places whose costliest stage costs least: a minimax shortest path, by dynamic programming over stages and
// places.
//
//     best[s + 1][to]  =  least over `from` of  max(best[s][from], cost of stage s from `from` to `to`)
//
// What a stage really costs can take long to find out, and most stages are on no good path. So costs are lower bounds at
// first; those of the path found are worked out, the path is sought again, and so on: when all costs on a path are exact,
// no path is better (lazy evaluation of edges, as Dellin and Srinivasa call it).
#ifndef PARTITIONER_CUTS_CUT_PATH_H
#define PARTITIONER_CUTS_CUT_PATH_H

#include "partitioner/cuts/cut_problem.h"

struct path_prices {
    const void *self;
    // At most what layers between two places cost as this stage; never less than what only_grows() says of them.
    uint64_t (*cost)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
    // A part of it that a stage with more layers has at least as much of.
    uint64_t (*only_grows)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
    // Works the cost out; *news is whether it is another one now. NULL: costs are what they are.
    bool (*work_out)(const void *self, uint32_t stage, uint32_t from, uint32_t to, bool *news, struct error *error);
    // Of paths that cost as much the one with the least sum of this; or NULL.
    uint64_t (*also)(const void *self, uint32_t stage, uint32_t from, uint32_t to);
};

struct path {
    uint32_t *cuts;  // room for a place per stage and one more; filled in
    uint64_t cost;   // of its costliest stage, as far as it is worked out; NO_TIME: there is none
    bool is_least;   // no path costs less, or there is none
};

// The best path of those that were worked out, after at most so many `rounds` of working out costs, and no longer than
// a part of the search. False only without memory.
bool cut_path_find(struct cut_problem *problem, const struct path_prices *prices, unsigned rounds, const struct search_part *part,
                   struct path *path, struct error *error);

#endif
