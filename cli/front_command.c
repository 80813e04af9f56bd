// weir front PROFILE: the Pareto front of time, memory and devices.

#include "cli/plan_command.h"
#include "cli/plan_front_options.h"

struct front_arguments {
    struct plan_options plan;
    struct front_options front;
    struct shared_options output;
};

static void check(void *self, struct argp_state *state)
{
    const struct front_arguments *given = self;
    front_check(&given->front, &given->plan, &given->output, state);
}

static int run(int count, char **arguments)
{
    static const char *const replaced[] = { "ranks", NULL };
    struct front_arguments given = { 0 };
    const struct plan_command command = {
        .plan = &given.plan,
        .output = &given.output,
        .own = { { &front_argp, 0, NULL, 0 } },
        .inputs = { &given.front },
        .replaces = true,  // --ranks
        .without = replaced,
        .check = check,
        .given = &given,
        .doc = "Time against memory and devices: the quickest plan for every limit of memory, on 1, 2, 4, ... devices,"
               " each with its certificate. Ctrl-C ends it with what is known."
               "\vTakes States and Devices of `weir partition --help`, too. Exit code 1: nothing fits.\n\nExample:\n"
               "  weir front profile.json --cluster \"8 devices, 16GiB, 12GB/s 5us\" \\\n"
               "      --schedule 1f1b --micro-batches 16 --svg front.svg\n",
    };
    plan_command_parse(&command, count, arguments);
    return front_run(&given.front, &given.plan, &given.output);
}

const struct command command_front = { "front", "time against memory and devices, of the best plans", run };
