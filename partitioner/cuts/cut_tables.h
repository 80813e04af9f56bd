// The best that the stages on either side of a place can do: bounds for branch and bound, by dynamic programming over
// stages and places.
#ifndef PARTITIONER_CUTS_CUT_TABLES_H
#define PARTITIONER_CUTS_CUT_TABLES_H

#include "partitioner/cuts/stage_price.h"

// For s and a place: the layers in front of it are the first s stages, and those behind it are stages s and on. The
// numbers are minima over all ways to cut them, ns.
struct cut_cell {
    uint64_t before;   // the sum of what a micro-batch takes in the stages in front
    uint64_t behind;   // the same for the stages behind
    uint64_t slowest;  // the largest F + B of a stage behind
    uint64_t tail;     // the largest bound of a single stage behind
};

struct cut_tables {
    uint32_t places;
    struct cut_cell *cells;  // [s * places + place]
};

// Fills the tables for plans below `limit_ns`, within a part of the search. *whole is false if the part was too
// small; then the tables are of no use. The caller frees `cells` by free(). False only without memory.
bool cut_tables_create(struct cut_tables *tables, struct cut_problem *problem, uint64_t limit_ns,
                       const struct search_part *part, bool *whole, struct error *error);
static inline struct cut_cell *cut_cell(const struct cut_tables *tables, uint32_t s, uint32_t place)
{
    return &tables->cells[(size_t)s * tables->places + place];
}

// A lower bound of all plans with this stage, if the stages in front of it take a micro-batch at least `before_ns`.
// NO_TIME: no stages can follow.
uint64_t cut_tables_bound(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t stage,
                          uint32_t to, const struct pattern_stage *as, uint64_t before_ns);

// Whether a single stage takes so long that neither it nor any stage with more layers is in a plan below `limit_ns`.
bool cut_is_too_long(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to, uint64_t limit_ns);

#endif
