// The log of a training run (docs/formats/log.md): a JSON object a line, by rank 0, appended to by whoever goes on
// with the run, so that it is one file over all its ranks, epochs and processes.
//
//     {"event": "begin", "format": "weir.log", .. "step": 0 ..}     where this process begins
//     {"event": "step", .. "step": 1, "loss": 5.562391, ..}         every step
//     {"event": "evaluation", ..}  {"event": "kept", ..}            when they come
//     {"event": "begin", .. "step": 500 ..}                         gone on with; what was said of later ones is void
//     {"event": "end", .. "how": "complete"}
//
// What is there is read strictly before a line is added: a log of another run, or what is none, is refused with the
// line's number. A last line that was cut off, by a machine that went down, is removed.
#ifndef TRAINER_RUN_LOG_H
#define TRAINER_RUN_LOG_H

#include "trainer/run_curve.h"
#include "trainer/train.h"

struct run_log;

// Which run it is: a log goes on where model, seed and data are the same.
struct run_log_run {
    const char *model, *schedule;
    char plan_hash[HASH_SIZE], data_hash[HASH_SIZE];
    uint64_t seed, steps;
};

struct run_log_request {
    const char *path;
    struct run_log_run run;
    bool resumes;            // else a log that has lines is refused
    uint64_t yields_ns;      // where another process writes there, and does not end within this time, nothing is
                             // written; 0: that is refused at once
    struct run_curve *past;  // receives the losses that are in it; NULL: nobody asks
    void (*say)(void *self, const char *sentence);  // what was removed; and, once, that a line could not be written
    void *self;
};

struct run_log *run_log_open(const struct run_log_request *request, struct error *error);
// With why the run ends: "complete", "stopped", or "failed" and for what reason (else NULL). False where not all could
// be written, which does not end a run.
bool run_log_close(struct run_log *log, uint64_t step, const char *how, const char *reason, struct error *error);

void run_log_begin(struct run_log *log, uint64_t step, const struct train_result *result);
void run_log_step(struct run_log *log, const struct train_step *step);
void run_log_evaluation(struct run_log *log, const struct train_evaluation *evaluation);
void run_log_kept(struct run_log *log, uint64_t step);

// Reads a log's text, as far as it is one, into `past`, which may be NULL; of a run (NULL: of any). *whole: bytes up to
// the end of the last whole line. False with a sentence that names the line.
bool run_log_read(const char *text, size_t length, const char *name, const struct run_log_run *run,
                  struct run_curve *past, size_t *whole, struct error *error);

#endif
