// A run that was measured, as its traces show it: when everything happened, its numbers, and what was left out.
//
//     const char *const files[] = { "rank0.json.gz", "rank1.json.gz" };
//     ok = measured_run_load(files, 2, TRACE_LAST, &run, &error);
//     measured_run_print(&run, &text);
//     measured_run_clear(&run);
#ifndef SCHEDULES_MEASURED_RUN_H
#define SCHEDULES_MEASURED_RUN_H

#include "schedules/pictures/trace_read.h"
#include "schedules/simulate.h"

struct measured_run {
    struct timeline timeline;
    struct simulation simulation;  // its numbers (measured.h)
    struct trace_summary trace;
    bool all_iterations;
};

// Reads files of all ranks, or of a rank each, packed by gzip or not ("-": standard input): iteration `iteration`
// (from 0), TRACE_LAST or TRACE_ALL. Cleared by measured_run_clear(), also where it fails.
bool measured_run_load(const char *const files[], size_t count, int64_t iteration, struct measured_run *run,
                       struct error *error);
void measured_run_clear(struct measured_run *run);

// Adds what was left out of the trace and what may surprise: a sentence a line, with neither capital nor stop.
void measured_run_note(const struct measured_run *run, struct text *text);

// Adds "2 ranks, 2 stages, 4 micro-batches, iteration 3 of 0 to 3" and the line's end.
void measured_run_write_shape(const struct measured_run *run, struct text *text);

// Adds its numbers as people read them: a summary, and a row per rank.
void measured_run_print(const struct measured_run *run, struct text *text);

#endif
