// What is told of a training run while it goes on, by rank 0: lines for an operator (train_lines.h), the run's log
// (trainer/run_log.h), and how its loss goes, for a picture of it.
#ifndef CLI_WATCHING_H
#define CLI_WATCHING_H

#include "cli/train_lines.h"
#include "trainer/run_log.h"

struct watching {
    struct train_lines lines;
    struct run_log *log;     // NULL: none
    struct run_curve curve;  // of all of the run that is known, by its log, too
    uint64_t step;           // made
};

struct watching_request {
    const char *log;  // a file; NULL: none
    const struct plan *plan;
    const struct text_data *data;
    uint64_t steps, seed, every;
    bool resumes;
    bool is_in_epoch;  // of an elastic run, of which a process that was given up may still write the log
};

bool watching_open(struct watching *watching, const struct watching_request *request, struct error *error);
struct train_listener watching_listener(struct watching *watching);
// With how the run ended, as run_log_close() is told. False where the log could not be written.
bool watching_close(struct watching *watching, const char *how, const char *reason, struct error *error);

#endif
