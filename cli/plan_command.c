#include "cli/plan_command.h"

static const struct argp_option options[] = {
    OPTION_JSON_IN(5),
    OPTION_OUTPUT,
    { 0 },
};

static size_t count_own(const struct plan_command *command)
{
    size_t count = 0;
    while (count < PLAN_COMMAND_OWN && command->own[count].argp)
        count++;
    return count;
}

static error_t parse_plan_command_option(int key, char *argument, struct argp_state *state)
{
    const struct plan_command *command = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        for (size_t i = 0; i < count_own(command); i++)
            state->child_inputs[(command->replaces ? 0 : PLAN_CHILDREN) + i] = command->inputs[i];
        plan_child_inputs(command->plan, state->child_inputs + (command->replaces ? count_own(command) : 0));
        return 0;
    case ARGP_KEY_END:
        command->check(command->given, state);
        return 0;
    default:
        return shared_option(key, argument, command->output, state);
    }
}

void plan_command_parse(const struct plan_command *command, int count, char **arguments)
{
    static const char *const nothing[] = { NULL };
    struct hiding plan, storage, arrangement;
    const struct argp_child of_plans[PLAN_CHILDREN] = {
        { options_hide(&plan_argp, command->without ? command->without : nothing, &plan), 0, NULL, 0 },
        { options_hide(&storage_argp, NULL, &storage), 0, NULL, 0 },
        { options_hide(&arrangement_argp, command->without_devices, &arrangement), 0, command->devices_heading,
          command->devices_heading ? 6 : 0 },
    };
    struct argp_child children[PLAN_COMMAND_OWN + PLAN_CHILDREN + 1] = { 0 };
    for (size_t i = 0; i < count_own(command); i++)
        children[(command->replaces ? 0 : PLAN_CHILDREN) + i] = command->own[i];
    for (size_t i = 0; i < PLAN_CHILDREN; i++)
        children[(command->replaces ? count_own(command) : 0) + i] = of_plans[i];
    const struct argp argp = {
        .options = options, .parser = parse_plan_command_option, .children = children, .args_doc = "PROFILE",
        .doc = command->doc
    };
    command_parse(&argp, count, arguments, (void *)command);
}
