// The engines that run schedules, and which schedules each of them runs. This one table is used by runs, by planning
// for a run, and by marks for what cannot be run.
#ifndef SCHEDULES_GENERATORS_ENGINES_H
#define SCHEDULES_GENERATORS_ENGINES_H

#include "schedules/generators/generate.h"

struct engine {
    const char *name;
    const char *about;  // one line for help texts
    // Whether the engine runs a schedule. If not, the error says which part of the schedule it cannot run.
    bool (*runs)(const struct schedule *schedule, struct error *error);
};

enum { ENGINE_THREADS, ENGINE_PROCESSES, ENGINE_PYTORCH, ENGINES };
extern const struct engine engines[];  // indexed by the enum; ended by a NULL name

const struct engine *engine_find(const char *name, struct error *error);

// Whether the engine runs what a generator makes with its usual numbers of chunks and splits.
bool engine_runs_generator(const struct engine *engine, const struct generator *generator, struct error *error);

#endif
