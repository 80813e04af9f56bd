#include "partitioner/cuts/stage_memo.h"

#include <stdlib.h>

enum { MOST_NUMBERS = 1 << 20 };

struct stage_memo *stage_memo_create(const struct cut_problem *problem, struct error *error)
{
    const size_t places = problem->places->count, rows = problem->stages * places;
    struct stage_memo *memo = calloc(1, sizeof *memo + rows * sizeof memo->rows[0]);
    if (!memo)
        return error_null(error_no_memory(error, "a search"));
    memo->problem = problem;
    memo->places = places;
    memo->row_count = rows;
    memo->room = MOST_NUMBERS / places;
    return memo;
}

void stage_memo_free(struct stage_memo *memo)
{
    for (size_t i = 0; memo && i < memo->row_count; i++)
        free(memo->rows[i]);
    free(memo);
}

void stage_memo_set(struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to, uint64_t number)
{
    uint64_t **row = &memo->rows[memo->problem->alike[stage] * memo->places + from];
    if (!*row && memo->room > 0) {
        *row = calloc(memo->places, sizeof **row);
        memo->room -= *row != NULL;
    }
    if (*row)
        (*row)[to] = number == UINT64_MAX - 1 ? 0 : number < UINT64_MAX ? number + 1 : UINT64_MAX;
}
