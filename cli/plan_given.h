// A plan that somebody made by hand, at our prices: weir price --plan, --cuts and
// --recompute, of which `weir partition` knows the first as --evaluate. A child of the
// command's arguments, whose input has `options` set to those of the planning itself.
#ifndef CLI_PLAN_GIVEN_H
#define CLI_PLAN_GIVEN_H

#include "cli/plan_request.h"

struct given_plan {
    struct plan_options *options;
    bool is_old_spelling;         // of weir partition
    bool is_wanted;               // one of the two must be there
    const char *plan;             // a file
    const char *cuts, *recompute;  // layers per stage
};

extern const struct argp given_plan_argp, given_plan_old_argp;

bool given_plan_is_asked(const struct given_plan *given);

// How it was asked for: "--plan".
const char *given_plan_option(const struct given_plan *given);

// Refuses options of the planning that have no place beside a plan that is given; for the end of parsing.
void given_plan_check(const struct given_plan *given, struct argp_state *state);

// Prices it, prints it beside the best plan of the same request, and returns the exit
// code: 1 where it does not fit.
int given_plan_run(const struct given_plan *given, const struct shared_options *output);

#endif
