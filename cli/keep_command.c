// weir keep PROFILE --plan FILE: whether to keep a plan, and what plans lose when times vary.

#include "cli/plan_command.h"
#include "cli/plan_find.h"

struct keep_arguments {
    struct plan_options plan;
    struct stability_options stability;
    struct shared_options output;
};

static void check(void *self, struct argp_state *state)
{
    const struct keep_arguments *given = self;
    if (!given->stability.keep && !given->stability.has_noise)
        argp_error(state, "--plan FILE is missing, the plan to keep; or --noise, for what a new one loses");
    if (!given->stability.keep)
        plan_require_all(&given->plan, state);
}

static int run(int count, char **arguments)
{
    struct keep_arguments given = { .plan.is_partial = true };  // until it is known that there is no plan to keep
    const struct plan_command command = {
        .plan = &given.plan,
        .output = &given.output,
        .own = { { &stability_argp, 0, NULL, 0 } },
        .inputs = { &given.stability },
        .check = check,
        .given = &given,
        .doc = "Plans anew, and stays with the plan one has unless the new one gains enough; prints the one that is"
               " decided for, and why. What the options leave out is as the plan's file has it. --noise says what the"
               " plan loses when times vary, also without --plan."
               "\vThe draws of --noise may take the --deadline once more. Takes States and Devices of `weir partition"
               " --help`, too. Exit code 1: nothing fits.\n\nExamples:\n"
               "  weir keep profile.json --plan plan.json --gain 2% -o plan.json\n"
               "  weir keep profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
               "      --schedule 1f1b --micro-batches 16 --noise 3% --robust -o plan.json\n",
    };
    plan_command_parse(&command, count, arguments);
    return plan_find_run(&(struct plan_finding){ .plan = &given.plan, .stability = &given.stability,
                                                 .output = &given.output });
}

const struct command command_keep = { "keep", "stay with a plan unless another gains enough", run };
