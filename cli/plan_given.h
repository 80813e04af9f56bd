// A plan that somebody made by hand, at our prices: weir partition --evaluate, --cuts
// and --recompute. A child of the command's arguments, whose input has `options` set
// to those of the planning itself.
#ifndef CLI_PLAN_GIVEN_H
#define CLI_PLAN_GIVEN_H

#include "cli/plan_request.h"

struct given_plan {
    struct plan_options *options;
    const char *evaluate;         // a file
    const char *cuts, *recompute;  // layers per stage
};

extern const struct argp given_plan_argp;

bool given_plan_is_asked(const struct given_plan *given);

// Prices it, prints it beside the best plan of the same request, and returns the exit
// code: 1 where it does not fit.
int given_plan_run(const struct given_plan *given, const struct shared_options *output);

#endif
