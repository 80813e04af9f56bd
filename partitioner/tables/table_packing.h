// Whether the tables of a part (table_program.h) whose way is decided can share the members at all.
//
// Pieces of one table are on different members, and a member's memory, reads and width are limited together. A
// relaxation does not see that three pieces of four GiB do not share members of ten GiB with pieces of seven. So the
// decided tables are placed one by one, the largest first, on members that still differ, with every way back. Tables
// that every member has, whatever their way, are taken off first, at their least.
#ifndef PARTITIONER_TABLES_TABLE_PACKING_H
#define PARTITIONER_TABLES_TABLE_PACKING_H

#include "partitioner/tables/table_program.h"

enum packing { PACKING_FITS, PACKING_NONE, PACKING_UNKNOWN };

// PACKING_NONE: no placement of the part costs less than `limit_ps`. PACKING_UNKNOWN: it takes more than `most_steps`.
enum packing table_packing_try(const struct placement_problem *problem, const struct placement_part *part,
                               uint64_t limit_ps, uint64_t most_steps, struct error *error);

#endif
