// weir partition PROFILE: decides which layers are on which devices, and which are recomputed.

#include "cli/command.h"
#include "cli/plan_find.h"

enum { KEY_SECOND_OPINION = KEY_OWN, KEY_FOR };

struct partition_arguments {
    struct plan_options plan;
    bool second_opinion;
    enum plan_target target;
    struct shared_options output;  // --json, -o
};

static const struct argp_option options[] = {
    { "second-opinion", KEY_SECOND_OPINION, 0, 0, "Let GLPK find the least bound of small cases too", 4 },
    { "for", KEY_FOR, "FRAMEWORK", 0, "Only what it can be told: megatron, torchtitan (weir export)", 2 },
    OPTION_JSON_IN(5),
    OPTION_OUTPUT,
    { 0 },
};

static error_t parse_partition_option(int key, char *argument, struct argp_state *state)
{
    struct partition_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        plan_child_inputs(&given->plan, state->child_inputs);
        return 0;
    case KEY_SECOND_OPINION:
        given->second_opinion = true;
        return 0;
    case KEY_FOR:
        given->target = (enum plan_target)option_name(argument, "--for", plan_target_names, state);
        return 0;
    case ARGP_KEY_END:
        if (given->target != TARGET_ANY && given->second_opinion)
            argp_error(state, "--for or --second-opinion, not both: GLPK knows nothing of frameworks");
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static void parse(int count, char **arguments, struct partition_arguments *given)
{
    const struct argp_child children[] = {
        { &plan_argp, 0, NULL, 0 },
        { &storage_argp, 0, "States:", 6 },
        { &arrangement_argp, 0, "Devices:", 7 },
        { 0 },
    };
    const struct argp argp = {
        .options = options,
        .parser = parse_partition_option,
        .children = children,
        .args_doc = "PROFILE",
        .doc = "Cuts a model into the stages of a schedule and decides what to recompute, so that an iteration"
               " takes the least simulated time and every stage fits on its device. Ctrl-C ends the search with the"
               " best plan so far."
               "\vFor a plan that is there: weir price, keep, explain; for many: front, sweep. Exit code 1: nothing"
               " fits.\n\nExample:\n"
               "  weir partition profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
               "      --schedule 1f1b --micro-batches 16 -o plan.json\n",
    };
    command_parse(&argp, count, arguments, given);
}

static int run(int count, char **arguments)
{
    struct partition_arguments given = { 0 };
    parse(count, arguments, &given);
    return plan_find_run(&(struct plan_finding){ .plan = &given.plan, .stability = &(struct stability_options){ 0 },
                                                 .second_opinion = given.second_opinion, .target = given.target,
                                                 .output = &given.output });
}

const struct command command_partition = { "partition", "cut a model into stages, decide what to recompute", run };
