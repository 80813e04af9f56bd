// weir partition PROFILE: decides which layers are on which devices, and which are recomputed.

#include "cli/capacities.h"
#include "cli/command.h"
#include "cli/plan_find.h"

enum { KEY_SECOND_OPINION = KEY_OWN, KEY_FOR, KEY_MOST_DROPPED };

struct partition_arguments {
    struct plan_options plan;
    bool second_opinion;
    enum plan_target target;
    struct capacity_options capacities;
    struct shared_options output;  // --json, -o
};

static const struct argp_option options[] = {
    { "second-opinion", KEY_SECOND_OPINION, 0, 0, "Let GLPK find the least bound of small cases too", 4 },
    { "for", KEY_FOR, "FRAMEWORK", 0, "Only what megatron or torchtitan can be told", 2 },
    { "most-dropped", KEY_MOST_DROPPED, "PERCENT", 0, "What experts' capacity may drop, such as 5%", 2 },
    OPTION_JSON_IN(5),
    OPTION_OUTPUT,
    { 0 },
};

// The first one is the plan's; a plan chooses among that and the others.
static error_t take_profile(struct partition_arguments *given, const char *argument, struct argp_state *state)
{
    if (!given->plan.profile)
        return ARGP_ERR_UNKNOWN;
    if (given->capacities.count == MOST_CAPACITIES)
        argp_error(state, "more than %d profiles", MOST_CAPACITIES + 1);
    given->capacities.files[given->capacities.count++] = argument;
    return 0;
}

static const struct option_field fields[] = {
    { KEY_SECOND_OPINION, OPTION_FIELD(struct partition_arguments, second_opinion) },
    { KEY_FOR, OPTION_FIELD(struct partition_arguments, target), .names = plan_target_names },
    { KEY_MOST_DROPPED, OPTION_FIELD_GIVEN(struct partition_arguments, capacities.most_dropped_ppm,
                                           capacities.has_most_dropped), .is_share = true, .most = 1000000 },
    { 0 },
};

static error_t parse_partition_option(int key, char *argument, struct argp_state *state)
{
    struct partition_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        plan_child_inputs(&given->plan, state->child_inputs);
        return 0;
    case ARGP_KEY_ARG:
        return take_profile(given, argument, state);
    case ARGP_KEY_END:
        if (given->target != TARGET_ANY && given->second_opinion)
            argp_error(state, "--for or --second-opinion, not both: GLPK knows nothing of frameworks");
        return 0;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
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
        .args_doc = "PROFILE...",
        .doc = "Cuts a model into stages and decides what to recompute, so that an iteration takes the least simulated"
               " time and every stage fits. Ctrl-C: the best so far."
               "\vProfiles that differ in the capacity of experts: the largest that fits is taken. See: weir price,"
               " keep, front, sweep. Exit code 1: nothing fits.\n\nExample:\n"
               "  weir partition profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
               "      --schedule 1f1b --micro-batches 16 -o plan.json\n",
    };
    command_parse(&argp, count, arguments, given);
}

static int run(int count, char **arguments)
{
    struct partition_arguments given = { 0 };
    parse(count, arguments, &given);
    const struct plan_finding finding = { .plan = &given.plan, .stability = &(struct stability_options){ 0 },
                                          .second_opinion = given.second_opinion, .target = given.target,
                                          .output = &given.output };
    return given.capacities.count > 0 || given.capacities.has_most_dropped
               ? capacities_run(&given.capacities, &given.plan, &finding) : plan_find_run(&finding);
}

const struct command command_partition = { "partition", "cut a model into stages, decide what to recompute", run };
