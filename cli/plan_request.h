// What is to be planned, as commands that plan are given it: the profile, the
// cluster, the schedule, and how long to search. A command takes them as a child of
// its own arguments:
//
//     static const struct argp_child children[] = { { &plan_argp, 0, NULL, 0 }, { 0 } };
//
//     case ARGP_KEY_INIT:
//         state->child_inputs[0] = &given->plan;
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "cli/options.h"
#include "partitioner/search.h"

struct plan_options {
    const char *profile;
    uint64_t budget, deadline_ns;
    struct shared_options shared;
};

extern const struct argp plan_argp;

// What these options ask for, loaded. `request` borrows from the rest; Ctrl-C ends its
// search, and a second one the program.
struct plan_request {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

bool plan_request_load(const struct plan_options *options, struct plan_request *request, struct error *error);
void plan_request_clear(struct plan_request *request);

#endif
