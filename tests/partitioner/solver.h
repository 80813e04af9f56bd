// Tests that need weir-glpk.
#ifndef TESTS_PARTITIONER_SOLVER_H
#define TESTS_PARTITIONER_SOLVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "partitioner/integer/integer.h"
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

// The value of a variable, 0 if it is not listed.
static inline double integer_value_of(const struct integer_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->value_count; i++)
        if (strcmp(answer->values[i].name, name) == 0)
            return answer->values[i].value;
    return 0;
}

#endif
