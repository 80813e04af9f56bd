// Tables placed on the members of a group, as a whole: the placement, what it takes, how good it is, and why.
//
// The search (table_search.h) gives a placement at once; the bound (table_bound.h) makes better ones and says how far
// from the least it can be. The rules of other systems stand beside it, and count where one of them is better.
#ifndef PARTITIONER_TABLES_TABLE_PLAN_H
#define PARTITIONER_TABLES_TABLE_PLAN_H

#include <signal.h>

#include "common/text.h"
#include "partitioner/plan/plan.h"
#include "partitioner/tables/table_placement.h"
#include "partitioner/tables/table_rules.h"

struct table_request {
    const struct table_set *set;
    const struct cluster *cluster;
    enum table_optimizer optimizer;
    bool without_solver;  // the bound is then that of sums
    uint64_t seconds;  // the most that GLPK may take; 0: its budget of programs alone
    const volatile sig_atomic_t *interrupted;  // or NULL
};

struct table_rule_cost {
    bool fits;
    struct placement_cost cost;
    char why[200];  // it does not fit
};

// What the cost would be if the binding table had this way, and all others were placed anew.
struct table_split {
    enum table_kind kind;
    uint32_t parts;
    uint64_t ps;  // UINT64_MAX: nothing fits
};
enum { TABLE_MOST_SPLITS = 4 };

struct table_plan {
    struct placement_problem problem;
    struct table_placement placement;
    struct placement_loads loads;
    struct arrays arrays;  // those two are in
    struct placement_cost cost;
    struct certificate certificate;
    uint32_t programs;  // that were solved for the bound
    struct table_rule_cost rules[TABLE_RULES];
    uint32_t binding;   // the table that the slowest member reads longest
    struct table_split splits[TABLE_MOST_SPLITS];
    uint32_t split_count;
};

// NULL with an error, of kind ERROR_ANSWER if nothing fits. The request's set and cluster must outlive the plan.
struct table_plan *table_plan_make(const struct table_request *request, struct error *error);
void table_plan_free(struct table_plan *plan);

// The places in the words of a profile's variant: "0/rows0+2/all", or "0/1@host:host5000" with tables on the host. The
// room for rows of these on each device; 0: none are there.
void table_plan_words(const struct table_plan *plan, struct text *text);
uint64_t table_plan_room(const struct table_plan *plan);

// As a table for people, and as a document (docs/formats/placement.md).
void table_plan_print(const struct table_plan *plan, struct text *text);
void table_plan_write(const struct table_plan *plan, struct text *text);

#endif
