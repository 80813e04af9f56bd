// Bounds on what the stages on either side of a place can do, by dynamic
// programming over places to cut:
//
//     stages 0 .. k - 1  |  stages k .. p - 1
//     layers 0 .. b - 1  |  layers b .. n - 1
//
// Each cell is the least over all ways to cut its side, every quantity for itself.
// They begin with no recomputation at all, which is never too much; once a good
// plan is known, what stages of interest must recompute is worked out exactly and
// edges (stage, first, end) whose own bound is not below that plan are left out,
// which is safe for plans that are better than it.
#ifndef PARTITIONER_SEARCH_TABLES_H
#define PARTITIONER_SEARCH_TABLES_H

#include "partitioner/search_problem.h"

#define NO_WAY UINT64_MAX  // no way to cut this side

struct tables {
    uint32_t layers, ranks;
    // [k * (layers + 1) + b]
    uint64_t *before;    // sum of rounds (F, B, and both ways of the link behind) of the first k stages
    uint64_t *behind;    // the same of stages k on
    uint64_t *family;    // max over stages s >= k of rounds of k .. s - 1, and m (F + B) of s
    uint64_t *slowest;   // F + B of the slowest of stages k on
    uint64_t *tail;      // the largest stage bound (pattern.h) of stages k on
};

bool tables_create(struct tables *tables, const struct problem *problem, struct error *error);
void tables_clear(struct tables *tables);

static inline size_t table_cell(const struct tables *tables, uint32_t k, uint32_t b)
{
    return (size_t)k * (tables->layers + 1) + b;
}

// Fills all tables. `limit_ns`: only plans below it matter (NO_WAY: all do).
// `exact`: work out what edges below the limit must recompute, until the problem
// has to stop; otherwise only what is known already is used.
bool tables_fill(struct tables *tables, struct problem *problem, uint64_t limit_ns, bool exact, struct error *error);

#endif
