// A schedule in the CSV format of PyTorch's pipelining (docs/formats/csv.md): a row per rank, a cell per action,
// nothing else.
//
//     0F0,0F1,,,0B0,,0B1         2 ranks, 1F1B: an empty cell is a step in which
//     ,1F0,1B0,1F1,1B1,,         the rank does nothing
//
// The file has no placement, sizes or steps. A stage is on the rank in whose row it appears, and there are as many
// stages and micro-batches as are named. An idle cell is not an action: the order determines the idle steps, and the
// writer finds the same ones again.
#ifndef SCHEDULES_CSV_H
#define SCHEDULES_CSV_H

#include "schedules/schedule.h"

// The version of PyTorch that will read the file: groups were added in 2.9.
enum csv_dialect { CSV_TORCH_2_6, CSV_TORCH_2_9 };
extern const char *const csv_dialect_names[];  // NULL-terminated: "torch2.6", "torch2.9"

// Whether a text can only be such a file, judged by its first character.
bool csv_is_likely(const char *text, size_t length);

// Reads every dialect, with any line ends. REDUCE_GRAD becomes REDUCE. Cells for sharded weights (UNSHARD, RESHARD)
// and for waiting (for sends, for reductions) have no counterpart in Weir and are counted in `passed_over`. Errors
// are "NAME:line:column: ...". Freed by schedule_free().
struct schedule *csv_read(const char *text, size_t length, const char *name, size_t *passed_over,
                          struct error *error);

struct csv_style {
    enum csv_dialect dialect;
    bool line_feeds;  // at line ends, instead of Python's CR LF
};

// Actions that have no cell in PyTorch's file, since they are implicit there.
struct csv_left_out {
    size_t steps, reductions, validations, moves;
};

// Writes a compute order in aligned columns: each action is in the column of the step in which it runs if every
// action takes one step. A lowered schedule is written as it is. Fails if PyTorch's format cannot express the
// schedule: copies of stages, splits, updates within the run, recomputation as an action of its own, groups in
// torch2.6.
bool csv_write(const struct schedule *schedule, const struct csv_style *style, struct text *text,
               struct csv_left_out *left_out, struct error *error);

#endif
