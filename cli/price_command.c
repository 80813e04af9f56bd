// weir price PROFILE --plan FILE: what a plan that is there is worth.

#include "cli/command.h"
#include "cli/plan_given.h"

struct given {
    struct plan_options plan;
    struct given_plan by_hand;
    struct shared_options output;  // --json, -o
};

static const struct argp_option options[] = {
    OPTION_JSON_IN(5),
    OPTION_OUTPUT,
    { 0 },
};

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        plan_child_inputs(&given->plan, state->child_inputs);
        state->child_inputs[PLAN_CHILDREN] = &given->by_hand;
        return 0;
    case ARGP_KEY_END:
        given_plan_check(&given->by_hand, state);
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static void parse(int count, char **arguments, struct given *given)
{
    static const char *const not_shown[] = { "fewer", "variants", NULL };
    struct hiding holding, arrangement;
    const struct argp_child children[] = {
        { &plan_argp, 0, NULL, 0 },
        { options_hide(&holding_argp, NULL, &holding), 0, NULL, 0 },
        { options_hide(&arrangement_argp, not_shown, &arrangement), 0, "With --cuts:", 6 },
        { &given_plan_argp, 0, NULL, 0 },
        { 0 },
    };
    const struct argp argp = {
        .options = options,
        .parser = take,
        .children = children,
        .args_doc = "PROFILE",
        .doc = "Prices a plan, also one made by hand: its time, its bytes, and how far it is from the best plan there"
               " is. What the options leave out is as the plan's file has it; --cuts needs --cluster, --schedule and"
               " --micro-batches."
               "\vTakes States of `weir partition --help`, too. Exit code 1: the plan does not fit.\n\n"
               "Examples:\n"
               "  weir price profile.json --plan plan.json\n"
               "  weir price profile.json --cuts 9,9,10 --schedule 1f1b --micro-batches 16 \\\n"
               "      --cluster \"3 devices, 16GiB, 12GB/s 5us\"\n",
    };
    command_parse(&argp, count, arguments, given);
}

static int run(int count, char **arguments)
{
    struct given given = { .by_hand.is_wanted = true };
    given.by_hand.options = &given.plan;
    parse(count, arguments, &given);
    return given_plan_run(&given.by_hand, &given.output);
}

const struct command command_price = { "price", "what a plan that is there is worth, beside the best", run };
