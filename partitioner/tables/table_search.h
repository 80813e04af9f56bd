// A placement of tables at once, without a solver.
//
// The ways of all tables are searched. For given ways, pieces are placed longest first, each on the member on which
// the cost so far grows least (LPT: Graham 1969). This is done in several orders, by reads, by reads and link, and by
// bytes, and the best counts. From several starts one table at a time gets another way, as long as that makes the cost
// less. Then pieces of the slowest member and the busiest unit move or change places. Random changes of a few tables
// begin anew, until the budget is used. It counts work, so that the same input gives the same placement.
#ifndef PARTITIONER_TABLES_TABLE_SEARCH_H
#define PARTITIONER_TABLES_TABLE_SEARCH_H

#include "partitioner/tables/table_placement.h"

#define PLACEMENT_NONE UINT64_MAX

struct ranked_table {
    uint64_t key;
    uint32_t table;
};

struct table_search {
    const struct placement_problem *problem;
    uint64_t budget;  // units of work that are left: a piece held against a member
    struct table_placement best;
    uint64_t best_ps;  // PLACEMENT_NONE: nothing fits so far
    uint32_t pinned;   // a table whose way is not changed; UINT32_MAX: none

    // While ways are tried:
    struct table_placement trial, kept;
    struct placement_loads loads;
    struct ranked_table *ranking, *by_reads;
    uint64_t *link_ps_per_mib;  // of each level: what 2^20 bytes of width take
    uint32_t *ways;
    struct arrays arrays;
};

bool table_search_open(struct table_search *search, const struct placement_problem *problem, uint64_t budget,
                       struct error *error);
void table_search_close(struct table_search *search);

// Considers a given placement, which has to fit to be the best.
void table_search_offer(struct table_search *search, const struct table_placement *placement);

// Places these ways longest first, and changes one at a time while that helps.
void table_search_descend(struct table_search *search, const uint32_t *ways);

// Descends from several starts; then from random changes of the best, until the budget is used or `bound_ps` is met.
void table_search_begin(struct table_search *search);
void table_search_go_on(struct table_search *search, uint64_t bound_ps);

#endif
