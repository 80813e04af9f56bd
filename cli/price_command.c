// weir price PROFILE --plan FILE: prices an existing plan.

#include "cli/plan_command.h"
#include "cli/plan_given.h"

struct price_arguments {
    struct plan_options plan;
    struct given_plan by_hand;
    struct shared_options output;
};

static void check(void *self, struct argp_state *state)
{
    const struct price_arguments *given = self;
    given_plan_check(&given->by_hand, state);
}

static int run(int count, char **arguments)
{
    static const char *const not_shown[] = { "fewer", "variants", NULL };
    struct price_arguments given = { .by_hand.is_wanted = true };
    given.by_hand.options = &given.plan;
    const struct plan_command command = {
        .plan = &given.plan,
        .output = &given.output,
        .own = { { &given_plan_argp, 0, NULL, 0 } },
        .inputs = { &given.by_hand },
        .without_devices = not_shown,
        .devices_heading = "With --cuts:",
        .check = check,
        .given = &given,
        .doc = "Prices a plan, also one made by hand: its time, its bytes, and how far it is from the best plan there"
               " is. What the options leave out is as the plan's file has it; --cuts needs --cluster, --schedule and"
               " --micro-batches."
               "\vTakes States of `weir partition --help`, too. Exit code 1: the plan does not fit.\n\n"
               "Examples:\n"
               "  weir price profile.json --plan plan.json\n"
               "  weir price profile.json --cuts 9,9,10 --schedule 1f1b --micro-batches 16 \\\n"
               "      --cluster \"3 devices, 16GiB, 12GB/s 5us\"\n",
    };
    plan_command_parse(&command, count, arguments);
    return given_plan_run(&given.by_hand, &given.output);
}

const struct command command_price = { "price", "what a plan that is there is worth, beside the best", run };
