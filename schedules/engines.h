// Who runs schedules, and which: one table for whoever runs, plans for a run, or marks what cannot be run.
#ifndef SCHEDULES_ENGINES_H
#define SCHEDULES_ENGINES_H

#include "schedules/generators/generate.h"

struct engine {
    const char *name;
    const char *about;  // one line for help texts
    // Whether it runs a schedule; if not, the error says what of it it does not.
    bool (*runs)(const struct schedule *schedule, struct error *error);
};

enum { ENGINE_THREADS, ENGINE_PROCESSES, ENGINE_PYTORCH, ENGINES };
extern const struct engine engines[];  // by these, and ended by a NULL name

const struct engine *engine_find(const char *name, struct error *error);

// Whether it runs what a generator makes, with as many chunks and splits as is usual.
bool engine_runs_generator(const struct engine *engine, const struct generator *generator, struct error *error);

#endif
