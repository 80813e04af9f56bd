// Time against memory and devices: weir partition --front, --svg and --resolution. A child of
// the command's arguments.
#ifndef CLI_PLAN_FRONT_OPTIONS_H
#define CLI_PLAN_FRONT_OPTIONS_H

#include "cli/plan_request.h"

struct front_options {
    bool is_asked, has_resolution;
    uint32_t ranks[64];
    size_t rank_count;
    uint32_t resolution_ppm;
    const char *svg;
};

extern const struct argp front_argp;

// Finds the front and prints it; returns the exit code.
int front_run(const struct front_options *options, const struct search_request *request,
              const struct shared_options *output);

#endif
