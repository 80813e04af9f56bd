// Time against memory and devices: weir front --ranks, --svg and --resolution; `weir
// partition` has --front=RANKS. A child of the command's arguments, before plan_argp,
// whose --ranks takes one number.
#ifndef CLI_PLAN_FRONT_OPTIONS_H
#define CLI_PLAN_FRONT_OPTIONS_H

#include "cli/plan_request.h"

struct front_options {
    bool is_asked, has_resolution;
    const char *ranks_option;  // as it was given: "--ranks"
    uint32_t ranks[64];
    size_t rank_count;
    uint32_t resolution_ppm;
    const char *svg;
};

extern const struct argp front_argp, front_old_argp;

// Refuses what does not go together; for the end of parsing.
void front_check(const struct front_options *options, const struct plan_options *plan,
                 const struct shared_options *output, struct argp_state *state);

// Finds the front and prints it; returns the exit code.
int front_run(const struct front_options *options, const struct plan_options *plan,
              const struct shared_options *output);

#endif
