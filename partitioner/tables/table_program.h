// The relaxation of a part of all placements, for table_bound.h, which has its rows.
#ifndef PARTITIONER_TABLES_TABLE_PROGRAM_H
#define PARTITIONER_TABLES_TABLE_PROGRAM_H

#include "partitioner/integer/linear_program.h"
#include "partitioner/tables/table_placement.h"

// A part: the slowest reads, the largest width that a unit of each level sends a sample, and the ways that each table
// can have.
struct placement_part {
    uint64_t read_least, read_most;                                          // ps
    uint64_t width_least[CLUSTER_MOST_LEVELS], width_most[CLUSTER_MOST_LEVELS];  // bytes
    uint32_t *allowed;                                                       // a bit for each way, of each table
};

struct table_program {
    const struct placement_problem *problem;
    const struct placement_part *part;
    uint64_t grain_ps;  // times are counted in these, of which the limit has at most 2^26
    uint64_t limit;     // in grains: placements that cost as much do not matter
    struct linear_model model;
    uint32_t read, link, width, copied, broken;  // columns; `width` is that of level 0, and the next are the others'
    // Once the part has decided the way of a table on some members, these are a class of their own. How many pieces of
    // each way are in it is a column, too. Among devices that are not alike, there is one class of all members.
    uint32_t anchor;         // that table; UINT32_MAX: there is one class
    uint32_t class_size[2];  // members with a piece of the anchor, and all others
    uint32_t *piece;         // [table * TABLE_MOST_WAYS + way]: the column of pieces in the first class, or UINT32_MAX

    uint32_t *table_of;  // of each column that is a way; UINT32_MAX: it is another
    uint32_t *column;    // [table * TABLE_MOST_WAYS + way]; UINT32_MAX if the part leaves it out
    struct arrays arrays;
};

// Whether a part admits a way.
bool placement_part_admits(const struct placement_problem *problem, const struct placement_part *part, uint32_t table,
                           uint32_t way);

// The least speed by which a member can do reads: that of the quickest device.
uint64_t placement_quickest_ps(const struct placement_problem *problem, uint64_t read_ps);

// False if memory runs out, or if the numbers are too large for a program in whole numbers (`fits` is then false).
bool table_program_open(struct table_program *program, const struct placement_problem *problem,
                        const struct placement_part *part, uint64_t limit_ps, bool *fits, struct error *error);
// The cost in ps that no placement of the part is below, if these duals prove one; else 0.
uint64_t table_program_bound(const struct table_program *program, const double *duals);
void table_program_close(struct table_program *program);

#endif
