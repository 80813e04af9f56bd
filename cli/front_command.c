// weir front PROFILE: time against memory and devices.

#include "cli/command.h"
#include "cli/plan_front_options.h"

struct given {
    struct plan_options plan;
    struct front_options front;
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
        state->child_inputs[0] = &given->front;
        plan_child_inputs(&given->plan, state->child_inputs + 1);
        return 0;
    case ARGP_KEY_END:
        front_check(&given->front, &given->plan, &given->output, state);
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static void parse(int count, char **arguments, struct given *given)
{
    static const char *const replaced[] = { "ranks", NULL };
    struct hiding plan, holding, arrangement;
    const struct argp_child children[] = {
        { &front_argp, 0, NULL, 0 },
        { options_hide(&plan_argp, replaced, &plan), 0, NULL, 0 },
        { options_hide(&holding_argp, NULL, &holding), 0, NULL, 0 },
        { options_hide(&arrangement_argp, NULL, &arrangement), 0, NULL, 0 },
        { 0 },
    };
    const struct argp argp = {
        .options = options,
        .parser = take,
        .children = children,
        .args_doc = "PROFILE",
        .doc = "Time against memory and devices: the quickest plan for every limit of memory, on 1, 2, 4, ... devices,"
               " each with its certificate. Ctrl-C ends it with what is known."
               "\vTakes States and Devices of `weir partition --help`, too. Exit code 1: nothing fits.\n\nExample:\n"
               "  weir front profile.json --cluster \"8 devices, 16GiB, 12GB/s 5us\" \\\n"
               "      --schedule 1f1b --micro-batches 16 --svg front.svg\n",
    };
    command_parse(&argp, count, arguments, given);
}

static int run(int count, char **arguments)
{
    struct given given = { .front.is_asked = true };
    parse(count, arguments, &given);
    return front_run(&given.front, &given.plan, &given.output);
}

const struct command command_front = { "front", "time against memory and devices, of the best plans", run };
