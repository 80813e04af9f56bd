// Numbers about stages that take long to work out and are asked for again and again. There is one for each stage that
// is alike and each pair of places between which it may be.
//
// Rows are made when they are first asked for, up to a limit. Beyond it, nothing is remembered.
#ifndef PARTITIONER_CUTS_STAGE_MEMO_H
#define PARTITIONER_CUTS_STAGE_MEMO_H

#include "partitioner/cuts/cut_problem.h"

// A number that is known is remembered with 1 added; 0: it is not known. UINT64_MAX stays as it is, and the number
// below it is not remembered.
struct stage_memo {
    const struct cut_problem *problem;
    size_t places, row_count;
    size_t room;       // rows that may still be made
    uint64_t *rows[];  // by the stage that is alike and the place where it begins
};

// The problem is borrowed. Its stages that are alike and its places must be known, and their number stays. NULL with
// an error.
struct stage_memo *stage_memo_create(const struct cut_problem *problem, struct error *error);
void stage_memo_free(struct stage_memo *memo);

// The number as it was set last; false if it is not known.
static inline bool stage_memo_get(const struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to,
                                  uint64_t *number)
{
    const uint64_t *row = memo->rows[memo->problem->alike[stage] * memo->places + from];
    if (!row || row[to] == 0)
        return false;
    *number = row[to] < UINT64_MAX ? row[to] - 1 : UINT64_MAX;
    return true;
}

void stage_memo_set(struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to, uint64_t number);

#endif
