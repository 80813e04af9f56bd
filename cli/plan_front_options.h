// The Pareto front of time, memory and devices: weir front --ranks, --svg and --resolution. An
// argp child of the command's arguments that must precede plan_argp, whose --ranks takes a single number.
#ifndef CLI_PLAN_FRONT_OPTIONS_H
#define CLI_PLAN_FRONT_OPTIONS_H

#include "cli/plan_request.h"

struct front_options {
    bool has_resolution;
    uint32_t ranks[64];
    size_t rank_count;
    uint32_t resolution_ppm;
    const char *svg;
};

extern const struct argp front_argp;

// Refuses options that exclude each other; call it at the end of parsing.
void front_check(const struct front_options *options, const struct plan_options *plan,
                 const struct shared_options *output, struct argp_state *state);

// Finds the front and prints it; returns the exit code.
int front_run(const struct front_options *options, const struct plan_options *plan,
              const struct shared_options *output);

#endif
