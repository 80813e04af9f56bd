// How a benchmark ends that could not run.
#ifndef BENCH_FAIL_H
#define BENCH_FAIL_H

#include <errno.h>
#include <stdio.h>

#include "common/error.h"

// The exit code.
static inline int fail(const struct error *error)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, error->text);
    return 3;
}

#endif
