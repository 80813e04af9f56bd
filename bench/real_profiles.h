// PipeDream's profiles, which are stored next to the project and not in it.
#ifndef BENCH_REAL_PROFILES_H
#define BENCH_REAL_PROFILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// A benchmark that plans each of them on 4, 8 and 16 ranks by some schedules. Lists end with NULL.
struct real_bench {
    const char *name;
    const char *const *graphs, *const *schedules;
    bool (*plan)(const struct profile *profile, uint32_t ranks, const char *schedule, struct error *error);
};

static inline bool real_is_wanted(int count, char **arguments, int index, const char *word)
{
    return count <= index || strcmp(arguments[index], word) == 0;
}

static inline bool real_bench_profile(const struct real_bench *bench, const char *graph, int count, char **arguments,
                                      struct error *error)
{
    struct profile *profile = real_profile(graph, error);
    bool good = profile != NULL;
    for (uint32_t ranks = 4; good && ranks <= 16; ranks *= 2)
        for (size_t s = 0; good && bench->schedules[s]; s++)
            if ((count <= 2 || strtoul(arguments[2], NULL, 10) == ranks)
                && real_is_wanted(count, arguments, 3, bench->schedules[s]))
                good = bench->plan(profile, ranks, bench->schedules[s], error);
    profile_free(profile);
    return good;
}

// Runs all cases, or those of the arguments [MODEL [RANKS [SCHEDULE]]]; returns the exit code.
static inline int real_bench_run(const struct real_bench *bench, int count, char **arguments)
{
    struct error error = { 0 };
    if (!real_profiles_are_here())
        return 0;
    for (size_t i = 0; bench->graphs[i]; i++) {
        if (real_is_wanted(count, arguments, 1, bench->graphs[i])
            && !real_bench_profile(bench, bench->graphs[i], count, arguments, &error)) {
            fprintf(stderr, "%s: %s\n", bench->name, error.text);
            return 3;
        }
    }
    return 0;
}

#endif
