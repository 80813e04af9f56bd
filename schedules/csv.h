// A schedule as PyTorch's pipelining writes it down (docs/formats/csv.md): a row
// per rank, a cell per action, nothing else.
//
//     0F0,0F1,,,0B0,,0B1         2 ranks, 1F1B: an empty cell is a step in which
//     ,1F0,1B0,1F1,1B1,,         the rank does nothing
//
// The file says nothing of placement, sizes or steps: a stage is where it stands,
// and there are as many stages and micro-batches as are named. An idle cell is no
// action: the order says it all, and the writer finds the same idle steps again.
#ifndef SCHEDULES_CSV_H
#define SCHEDULES_CSV_H

#include "schedules/schedule.h"

// Which PyTorch is to read it: groups came with 2.9.
enum csv_dialect { CSV_TORCH_2_6, CSV_TORCH_2_9 };
extern const char *const csv_dialect_names[];  // NULL-terminated: "torch2.6", "torch2.9"

// Whether a text can be nothing but such a file, by its first letter.
bool csv_is_likely(const char *text, size_t length);

// Reads every dialect; lines may end as they like. REDUCE_GRAD becomes REDUCE. What
// concerns sharded weights (UNSHARD, RESHARD) and waiting for sends is not Weir's and
// counted in `passed_over`. Errors are "NAME:line:column: ...".
struct schedule *csv_read(const char *text, size_t length, const char *name, size_t *passed_over,
                          struct error *error);

struct csv_style {
    enum csv_dialect dialect;
    bool line_feeds;  // at the ends of lines, rather than Python's CR LF
};

// What has no cell in PyTorch's file, and goes without saying there.
struct csv_left_out {
    size_t steps, reductions, validations, moves;
};

// A compute order is written aligned: an action stands in the column of the step in
// which it runs if every action takes one. A lowered schedule is written as it is.
// Fails on what PyTorch cannot be told: copies of stages, splits, updates within the
// run, recomputing apart, groups in torch2.6.
bool csv_write(const struct schedule *schedule, const struct csv_style *style, struct text *text,
               struct csv_left_out *left_out, struct error *error);

#endif
