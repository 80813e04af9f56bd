// PipeDream's profiles, which are stored next to the project and not in it.
#ifndef BENCH_REAL_PROFILES_H
#define BENCH_REAL_PROFILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/fail.h"
#include "profiler/import.h"

#define REAL_PROFILES "../shared/data/partition/pipedream/"

// Prints a line if they are missing.
static inline bool real_profiles_are_here(void)
{
    if (access(REAL_PROFILES, R_OK) == 0)
        return true;
    printf("skipped: the real profiles are not here (" REAL_PROFILES ")\n");
    return false;
}

static inline struct profile *real_profile(const char *graph, struct error *error)
{
    char path[200];
    snprintf(path, sizeof path, REAL_PROFILES "%s.graph.txt", graph);
    return import_pipedream(path, 1, error);
}

// Whether a case is wanted whose name must have all of some texts.
static inline bool has_all_texts(const char *name, char **texts, int count)
{
    for (int i = 0; i < count; i++)
        if (!strstr(name, texts[i]))
            return false;
    return true;
}

#endif
