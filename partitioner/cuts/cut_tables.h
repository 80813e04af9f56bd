// What the stages on either side of a place can do at best: bounds for branch and bound, by dynamic programming over
// stages and places.
#ifndef PARTITIONER_CUTS_CUT_TABLES_H
#define PARTITIONER_CUTS_CUT_TABLES_H

#include "partitioner/cuts/stage_price.h"

// Of the first s stages up to a place, and of stages s on from there: the least that can be of
struct cut_cell {
    uint64_t before;   // the sum of what a micro-batch takes in the stages before
    uint64_t behind;   // likewise behind
    uint64_t slowest;  // the largest F + B behind
    uint64_t tail;     // the largest bound of a single stage behind
};

struct cut_tables {
    uint32_t places;
    struct cut_cell *cells;  // [s * places + place]
};

// Fills them for plans below `limit_ns`, as far as work goes. *whole is false where that was not far enough: then they
// are of no use. False only without memory.
bool cut_tables_create(struct cut_tables *tables, struct cut_problem *problem, uint64_t limit_ns, const struct search_part *part,
                       bool *whole, struct error *error);
// Their `cells` are freed by free().
static inline struct cut_cell *cut_cell(const struct cut_tables *tables, uint32_t s, uint32_t place)
{
    return &tables->cells[(size_t)s * tables->places + place];
}

// A bound of all plans with this stage, whose stages in front of it take a micro-batch `before_ns` at least; NO_TIME where
// none can follow.
uint64_t cut_tables_bound(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t stage,
                          uint32_t to, const struct pattern_stage *as, uint64_t before_ns);

// What a single stage takes so long for that it is in no plan below `limit_ns`, and so is any with more layers.
bool cut_is_too_long(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to, uint64_t limit_ns);

#endif
