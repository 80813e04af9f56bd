// Tests that need weir-glpk.
#ifndef TESTS_PARTITIONER_SOLVER_H
#define TESTS_PARTITIONER_SOLVER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

// The solver is built only where GLPK is.
static inline void need_solver(void)
{
    char path[500];
    const char *folder = getenv("WEIR_LIBEXEC");
    snprintf(path, sizeof path, "%s/weir-glpk", folder ? folder : "/nowhere");
    if (access(path, X_OK) != 0)
        TEST_SKIP("weir-glpk is not built here (libglpk-dev)");
}

#endif
