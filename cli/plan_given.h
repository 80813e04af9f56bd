// A plan that was made by hand (given as a file or as cuts), priced by Weir: weir price --plan, --cuts and
// --recompute. An argp child of the command's arguments, whose input has `options` set to those of the planning
// itself.
#ifndef CLI_PLAN_GIVEN_H
#define CLI_PLAN_GIVEN_H

#include "cli/plan_request.h"

struct given_plan {
    struct plan_options *options;
    bool is_wanted;               // either --plan or --cuts must be given
    const char *plan;             // a file
    const char *cuts, *recompute;  // layers per stage
};

extern const struct argp given_plan_argp;

bool given_plan_is_asked(const struct given_plan *given);

// Refuses planning options that have no meaning beside a given plan; call it at the end of parsing.
void given_plan_check(const struct given_plan *given, struct argp_state *state);

// Prices the plan, prints it and how it compares with the best plan for the same request. Returns the exit code: 1 if
// the plan does not fit.
int given_plan_run(const struct given_plan *given, const struct shared_options *output);

#endif
