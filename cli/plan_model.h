// Planning by another planner's cost model: weir bottleneck --model. An argp child of the command's arguments, whose
// input has `options` set to those of the planning itself.
#ifndef CLI_PLAN_MODEL_H
#define CLI_PLAN_MODEL_H

#include "cli/plan_given.h"
#include "partitioner/objectives/bottleneck.h"

struct model_options {
    struct plan_options *options;
    const struct given_plan *by_hand;  // if a plan is given, its value is computed
    const char *name;
    enum bottleneck_model model;
    uint64_t cpus;
    bool is_straight, counts_activations, heeds_memory, is_scattered;
};

extern const struct argp model_argp;

// Refuses options that belong to planning by simulated time; call it at the end of parsing.
void model_check(const struct model_options *given, struct argp_state *state);

// Plans, or prices the given plan, prints the result, and returns the exit code.
int model_run(const struct model_options *given, const struct shared_options *output);

#endif
