// What no placement of these tables can be below, and better placements on the way.
//
// Members that are alike can change places, so the mean of a placement over all exchanges of members has the same
// reads, widths and bytes on each of them. The relaxation therefore needs no member: y[t, w] says which way table t
// has, and the slowest member does at least the mean. Its rows:
//
//     one way for each table
//     R >= the mean of all reads;  R >= the piece of each table, with all copies on the same member
//     V >= the mean of widths at each level;  V >= the piece of each table;  X >= latency + rate V + gather;  X >= host
//     memory in all
//     pieces that share a member: for q = 1, 2, ..  the sum of floor((q + 1) size / (capacity + 1)) on a member is at
//     most q, since their sizes together are at most the capacity. So no two pieces of more than half a member share
//     one. This is stated for memory, for reads with the largest R, and for widths with the largest V.
//
// A bound from this alone is weak, since half of a table can be split. So the least is bounded by parts: intervals of
// R and V, halved where the bound is least, and then ways that a table must or must not have. In a part, ways whose
// pieces are too large are left out, and the rows above are strong. GLPK solves each part's program. It is not
// trusted: a part's bound is what its duals prove in whole numbers (linear_program.h). Rows can all be broken by a
// column at a price, so that also parts that have no placement at all are proved so.
#ifndef PARTITIONER_TABLES_TABLE_BOUND_H
#define PARTITIONER_TABLES_TABLE_BOUND_H

#include <signal.h>

#include "partitioner/plan/plan.h"
#include "partitioner/tables/table_search.h"

struct table_bound_limits {
    uint32_t programs;  // relaxations at most
    uint32_t gap_ppm;   // a gap that is small enough to stop
    uint64_t seconds;   // for GLPK; 0: as many as it takes
    uint64_t work;      // units of work for placements that are made of a relaxation's answer, each
    const volatile sig_atomic_t *interrupted;  // or NULL
};

struct table_bound {
    uint64_t bound_ps;
    uint32_t programs;      // that were solved
    enum search_stop stop;  // why it is not the best placement's cost
    char stopped[80];
};

// The bound without a solver: each table's least reads, shared out evenly, and its least width.
uint64_t table_bound_by_sums(const struct placement_problem *problem);

// The bound by GLPK. The search gives the best placement so far, and gets better ones. Without weir-glpk the bound
// is that of the sums, and `stopped` says so.
bool table_bound_find(const struct placement_problem *problem, struct table_search *search,
                      struct table_bound_limits limits, struct table_bound *bound, struct error *error);

#endif
