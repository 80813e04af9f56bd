// The log of a training run (docs/formats/log.md): one JSON object per line, written by rank 0. A process that
// continues the run appends to it, so that one file covers all ranks, epochs and processes.
//
//     {"event": "begin", "format": "weir.log", .. "step": 0 ..}     where this process begins
//     {"event": "step", .. "step": 1, "loss": 5.562391, ..}         every step
//     {"event": "evaluation", ..}  {"event": "kept", ..}            when they happen
//     {"event": "begin", .. "step": 500 ..}                         resumed; lines about later steps are now void
//     {"event": "end", .. "how": "complete"}
//
// An existing file is parsed strictly before a line is added. A log of another run, or a file that is not a log, is
// refused with the line's number. A last line that was cut off, by a machine that crashed, is removed.
#ifndef TRAINER_RUN_LOG_H
#define TRAINER_RUN_LOG_H

#include "trainer/run_curve.h"
#include "trainer/train.h"

struct run_log;

// Identifies a run. A log can be continued if model, seed and data are the same.
struct run_log_run {
    const char *model, *schedule;
    char plan_hash[HASH_SIZE], data_hash[HASH_SIZE];
    uint64_t seed, steps;
};

struct run_log_request {
    const char *path;
    struct run_log_run run;
    bool resumes;            // if false, a log that has lines is refused
    // How long to wait if another process writes to the file. If it does not end within this time, this process
    // writes nothing. 0: refused at once.
    uint64_t yields_ns;
    struct run_curve *past;  // receives the losses that the file has; NULL: not needed
    void (*say)(void *self, const char *sentence);  // says what was removed, and once if a line cannot be written
    void *self;
};

struct run_log *run_log_open(const struct run_log_request *request, struct error *error);
// `how` says why the run ends: "complete", "stopped" or "failed"; `reason` says why it failed (else NULL). Returns
// false with `error` if not all could be written, which does not end a run. NULL is ignored.
bool run_log_close(struct run_log *log, uint64_t step, const char *how, const char *reason, struct error *error);

void run_log_begin(struct run_log *log, uint64_t step, const struct train_result *result);
void run_log_step(struct run_log *log, const struct train_step *step);
void run_log_evaluation(struct run_log *log, const struct train_evaluation *evaluation);
void run_log_kept(struct run_log *log, uint64_t step);

// Parses a log's text, as far as it is one, into `past`, which may be NULL. `run` is the run that it must be of
// (NULL: any). *whole receives the number of bytes up to the end of the last complete line. False with an error that
// names the line.
bool run_log_read(const char *text, size_t length, const char *name, const struct run_log_run *run,
                  struct run_curve *past, size_t *whole, struct error *error);

#endif
