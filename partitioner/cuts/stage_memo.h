// Numbers about stages that take long to work out and are asked for again and again. There is one for each stage that
// is alike and each pair of places between which it may be.
//
// Rows are made when they are first asked for, up to a limit. Beyond it, nothing is remembered.
#ifndef PARTITIONER_CUTS_STAGE_MEMO_H
#define PARTITIONER_CUTS_STAGE_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cut_problem;
struct error;
struct stage_memo;

// The problem is borrowed. Its stages that are alike and its places must be known, and their number stays. NULL with
// an error.
struct stage_memo *stage_memo_create(const struct cut_problem *problem, struct error *error);
void stage_memo_free(struct stage_memo *memo);

// The number as it was set; false if it was not, or was forgotten.
bool stage_memo_get(const struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to, uint64_t *number);
void stage_memo_set(struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to, uint64_t number);
void stage_memo_forget(struct stage_memo *memo, uint32_t stage, uint32_t from, uint32_t to);

#endif
