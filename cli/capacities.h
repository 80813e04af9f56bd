// Several profiles of `weir partition`, which differ in the capacity of their experts, and --most-dropped.
#ifndef CLI_CAPACITIES_H
#define CLI_CAPACITIES_H

#include "cli/plan_find.h"

enum { MOST_CAPACITIES = 16 };

struct capacity_options {
    const char *files[MOST_CAPACITIES];  // besides the first profile
    size_t count;
    bool has_most_dropped;
    uint32_t most_dropped_ppm;
};

// Plans by the capacity that drops the fewest choices and fits; returns the exit code. The finding's plan is `plan`.
int capacities_run(const struct capacity_options *options, struct plan_options *plan,
                   const struct plan_finding *finding);

#endif
