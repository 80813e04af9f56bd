// What rank 0 reports about a training run while it runs: lines for an operator (train_lines.h), the run's log
// (trainer/run_log.h), and the loss curve for a picture.
#ifndef CLI_WATCHING_H
#define CLI_WATCHING_H

#include "cli/train_lines.h"
#include "trainer/run_log.h"

struct watching {
    struct train_lines lines;
    struct run_log *log;     // NULL: no log
    struct run_curve curve;  // of the whole run as far as it is known, including by its log
    uint64_t step;           // steps made
};

struct watching_request {
    const char *log;  // a file; NULL: no log
    const struct plan *plan;
    const struct text_data *text;      // one of these two
    const struct sample_data *samples;
    uint64_t steps, seed, every;
    bool resumes;
    bool is_in_epoch;  // in an epoch of an elastic run; a process that was given up may still write to the log
};

bool watching_open(struct watching *watching, const struct watching_request *request, struct error *error);
struct train_listener watching_listener(struct watching *watching);
// Ends the log; `how` and `reason` are those of run_log_close(). False with `error` if the log could not be written.
bool watching_close(struct watching *watching, const char *how, const char *reason, struct error *error);

#endif
