// What a search by another's model tells of itself, held against the best there is.
#ifndef TESTS_PARTITIONER_OBJECTIVES_TOLD_H
#define TESTS_PARTITIONER_OBJECTIVES_TOLD_H

#include <math.h>

#include "partitioner/objectives/bottleneck.h"
#include "tests/test.h"

struct told {
    double least;  // the best there is; INFINITY: none
    size_t times;
};

// A plan that is told of is no better than the best, and a bound no higher; loads are rounded.
static inline void told_hear(void *self, double best_ns, double bound_ns)
{
    struct told *told = self;
    const double least = told->least;
    told->times++;
    if (best_ns < least * (1 - 1e-9) || (least < INFINITY && bound_ns > least * (1 + 1e-9)))
        fail_msg("told of a plan of %.17g ns and of a bound of %.17g, but the best has %.17g", best_ns, bound_ns, least);
}

#endif
