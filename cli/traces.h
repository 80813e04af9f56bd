// Measured runs as input of `weir simulate`: from traces, one file of all ranks or one file per rank.
#ifndef CLI_TRACES_H
#define CLI_TRACES_H

#include <argp.h>

#include "schedules/pictures/measured_run.h"

enum { MOST_TRACES = 4096 };

struct trace_options {
    const char *files[MOST_TRACES];
    size_t count;
    int64_t iteration;  // or TRACE_LAST, TRACE_ALL
    bool has_iteration;
};

enum { KEY_TRACE = 0x600, KEY_ITERATION };

#define TRACE_OPTIONS \
    { "trace", KEY_TRACE, "FILE...", 0, "Instead of a schedule, a run that was measured: Chrome trace events of " \
      "PyTorch's profiler, or of Weir; packed by gzip or not; of all ranks, or a file per rank", 0 }, \
    { "iteration", KEY_ITERATION, "N", 0, "Which iteration of the trace, from 0; last (the default), all", 0 }

// Parses these options, and further files after --trace. Returns ARGP_ERR_UNKNOWN for all else.
error_t trace_option(int key, char *argument, struct trace_options *options, struct argp_state *state);

// Reads the traces; says on standard error what was left out. Cleared by measured_run_clear().
bool traces_load(const struct trace_options *options, struct measured_run *run, struct error *error);

// Whether a file looks like a trace by how it begins: it is compressed, or JSON that is not a document of Weir.
bool trace_is_likely(const char *file);

#endif
