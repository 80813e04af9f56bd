// Planning by somebody else's cost model: weir bottleneck --model. A child of the command's
// arguments, whose input has `options` set to those of the planning itself; given --model,
// it needs no schedule.
#ifndef CLI_PLAN_MODEL_H
#define CLI_PLAN_MODEL_H

#include "cli/plan_given.h"
#include "partitioner/objectives/bottleneck.h"

struct model_options {
    struct plan_options *options;
    const struct given_plan *by_hand;  // with it: the value of that plan
    const char *name;                  // NULL: not asked for
    enum bottleneck_model model;
    uint64_t cpus;
    bool is_straight, counts_activations, heeds_memory, is_scattered;
};

extern const struct argp model_argp;

// Refuses options of the planning by simulated time; for the end of parsing.
void model_check(const struct model_options *given, struct argp_state *state);

// Plans, or prices the plan given, and returns the exit code.
int model_run(const struct model_options *given, const struct shared_options *output);

#endif
