// A folder that a test program may fill: made before its tests, and removed behind them.
#ifndef TESTS_API_SCRATCH_FOLDER_H
#define TESTS_API_SCRATCH_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[200];

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/weir-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) == NULL;
}

static inline int empty_folder(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    return system(command);
}

static inline int remove_folder(void **state)
{
    return empty_folder(state) != 0 || rmdir(folder) != 0;
}

#endif
