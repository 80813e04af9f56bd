// A game: one side has plans, the other paths (pattern_path.h), and what is paid is how long the
// path is in the plan. Every plan has a path as long as it takes, so what the paths' side can win
// by choosing paths in fixed proportions is what no plan can beat: with these proportions every
// stage has a price of its own, and the cheapest plan is a shortest way.
//
//                     plan A   plan B
//     path through 0     9        4          half and half: no plan is below 6
//     path through 1     3        8
//
// Who asks finds the cheapest plan at the proportions, and the longest path at the plans' own, adds
// both and solves again, until neither is news.
#ifndef PARTITIONER_SEARCH_PATH_GAME_H
#define PARTITIONER_SEARCH_PATH_GAME_H

#include "partitioner/search/pattern_path.h"

enum { GAME_PATHS = 96, GAME_PLANS = 96 };

struct game_path {
    uint32_t *counts;  // as of path_longest()
    uint64_t latency_ns;
    double weight;     // its proportion
};

struct game_plan {
    uint64_t *parts;   // [s * PATH_PARTS + part]
    uint32_t *places;  // where its stages end; stages + 1
    double weight;
    bool is_in;        // whether it takes part
};

struct path_game {
    uint32_t stages;
    struct game_path paths[GAME_PATHS];
    struct game_plan plans[GAME_PLANS];
    size_t path_count, plan_count;
    size_t path_turn, plan_turn;  // where to look first for what goes
    double *lengths;   // [path * GAME_PLANS + plan]
    double value_ns;   // once solved
};

struct path_game *path_game_create(uint32_t stages, struct error *error);
void path_game_free(struct path_game *game);

// What is there already is not added again; beyond the room, what weighs least goes.
void path_game_add_path(struct path_game *game, const uint32_t *counts, uint64_t latency_ns);
void path_game_add_plan(struct path_game *game, const uint64_t *parts, const uint32_t *places);

// About the best proportions of both sides, of the plans that take part.
void path_game_solve(struct path_game *game);

// What a stage's parts cost at the paths' proportions, times 2^GAME_BITS, and latencies likewise;
// never more than a mixture of the paths says.
enum { GAME_BITS = 16 };
void path_game_prices(const struct path_game *game, uint64_t *prices, uint64_t *latency);

// The plans' parts on average.
void path_game_average(const struct path_game *game, uint64_t *parts);

#endif
