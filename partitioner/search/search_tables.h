// Bounds on what the stages on either side of a place can do, by dynamic
// programming over places to cut:
//
//     stages 0 .. k - 1  |  stages k .. p - 1
//     layers 0 .. b - 1  |  layers b .. n - 1
//
// Each cell is the least over all ways to cut its side, every quantity for itself.
// They begin with what recomputing takes at least; once a good plan is known, what
// stages of interest must recompute is worked out exactly and edges (stage, first, end)
// whose own bound is not below that plan are left out, which is safe for plans that are
// better than it.
#ifndef PARTITIONER_SEARCH_SEARCH_TABLES_H
#define PARTITIONER_SEARCH_SEARCH_TABLES_H

#include "partitioner/search/search_problem.h"

#define NO_WAY UINT64_MAX  // no way to cut this side

// The largest forward and the largest backward (or messages) of some stages.
struct extreme {
    uint64_t forward, backward;
};

struct front {
    struct extreme *at;  // forward ascending, backward descending
    size_t count;
};

struct tables {
    uint32_t layers, ranks;
    // [k * (layers + 1) + b]
    // Of the first k stages:
    uint64_t *before;   // sum of rounds (F, B, and both ways of the link behind)
    uint64_t *head;     // the largest stage bound (pattern.h)
    uint64_t *extra;    // the largest pattern_stage_extra()
    uint64_t *doubled;  // the largest pattern_stage_doubled(), up to b
    struct front *fronts;  // largest times, where the last rank turns round after all forwards; or NULL
    // Of stages k on:
    uint64_t *behind;   // sum of rounds
    uint64_t *tail;     // the largest stage bound
    uint64_t *family;   // the largest sum of rounds of k .. s - 1 and m (F + B) of s
    uint64_t *slowest;  // the largest F + B
    bool *is_closed;    // whether no way from here on can be part of a better plan (search_loops.c)
};

bool tables_create(struct tables *tables, const struct problem *problem, struct error *error);
void tables_clear(struct tables *tables);

static inline size_t table_cell(const struct tables *tables, uint32_t k, uint32_t b)
{
    return (size_t)k * (tables->layers + 1) + b;
}

// A stage with layers [first, end) and what the tables know of its surroundings.
struct table_edge {
    struct pattern_stage stage;
    uint64_t round, way;      // of a micro-batch, with and without F and B
    uint64_t before, behind;  // of the tables
    uint64_t bound;           // NO_WAY where there is no way before or behind
};

// Fills in what is known of an edge; false if it is known not to fit.
bool tables_edge(const struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                 struct table_edge *edge);

// Whether stage s may end there.
bool tables_can_end(const struct problem *problem, uint32_t stage, uint32_t end);

// A longer stage only has a larger bound: the rest of a row need not be looked at
// once its work alone passes the limit.
bool tables_is_too_long(const struct problem *problem, uint32_t s, uint32_t first, uint32_t end, uint64_t limit);

// Fills all tables. `limit_ns`: only plans below it matter (NO_WAY: all do).
// What edges below the limit must recompute is worked out until so much work is done
// (0: not at all); of others only a bound is used. A search that is ended meanwhile (problem_is_interrupted()) is left
// with tables that say nothing.
bool tables_fill(struct tables *tables, struct problem *problem, uint64_t limit_ns, uint64_t until,
                 struct error *error);

// What is known of a plan: stages in a row, at one of its ends.
struct known {
    uint64_t rounds;         // their sum
    struct extreme slowest;  // their largest times
};

// A bound on all plans that end with the known stages and, in front of them, stage k
// with layers from `first`; NO_WAY if nothing can be before it.
uint64_t tables_bound_before(const struct tables *tables, const struct problem *problem, uint32_t k, uint32_t first,
                             const struct pattern_stage *stage, struct known known);

// A bound on all plans that begin with the known stages and, behind them, stage k
// with layers up to `end`; NO_WAY if nothing can be behind it.
uint64_t tables_bound_behind(const struct tables *tables, const struct problem *problem, uint32_t k, uint32_t end,
                             const struct pattern_stage *stage, struct known known);

struct known known_with(struct known known, const struct pattern_stage *stage);

#endif
