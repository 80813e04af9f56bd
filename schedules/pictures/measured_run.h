// A measured run, read from its traces: when everything happened, its numbers, and what was left out.
//
//     const char *const files[] = { "rank0.json.gz", "rank1.json.gz" };
//     ok = measured_run_load(files, 2, TRACE_LAST, &run, &error);
//     measured_run_print(&run, &text);
//     measured_run_clear(&run);
#ifndef SCHEDULES_MEASURED_RUN_H
#define SCHEDULES_MEASURED_RUN_H

#include "common/text.h"
#include "schedules/pictures/trace_read.h"
#include "schedules/simulate.h"

struct measured_run {
    struct timeline timeline;
    struct simulation simulation;  // its numbers (measured.h)
    struct trace_summary trace;
    struct text about;     // what a trace of Weir says of the run besides (trace_reader_about())
    bool all_iterations;
};

// Reads trace files of all ranks, or of one rank each, gzip-compressed or not ("-": standard input). `iteration` is
// a number from 0, TRACE_LAST or TRACE_ALL. Cleared by measured_run_clear(), even on failure.
bool measured_run_load(const char *const files[], size_t count, int64_t iteration, struct measured_run *run,
                       struct error *error);
void measured_run_clear(struct measured_run *run);

// Appends what was left out of the trace and what may surprise. Each is a sentence on a line, without capital and
// full stop.
void measured_run_note(const struct measured_run *run, struct text *text);

// Appends "2 ranks, 2 stages, 4 micro-batches, iteration 3 of 0 to 3" and a line feed.
void measured_run_write_shape(const struct measured_run *run, struct text *text);

// Appends its numbers for people: a summary, and a row per rank.
void measured_run_print(const struct measured_run *run, struct text *text);

#endif
