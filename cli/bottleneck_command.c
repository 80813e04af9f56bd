// weir bottleneck PROFILE --model NAME: plans by the busiest stage, as other planners have it.

#include "cli/command.h"
#include "cli/plan_model.h"

struct given {
    struct plan_options plan;
    struct given_plan by_hand;
    struct model_options model;
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
        state->child_inputs[PLAN_CHILDREN + 1] = &given->model;
        return 0;
    case ARGP_KEY_END:
        if (!given->model.name)
            argp_error(state, "--model is missing: pipedream, max-load or tps");
        model_check(&given->model, state);
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static void parse(int count, char **arguments, struct given *given)
{
    static const char *const of_time[] = { "schedule", "chunks", "pin", NULL };
    static const char *const of_places[] = { "devices", "variants", NULL };
    static const char *const of_kept[] = { "recompute", NULL };
    struct hiding plan, holding, arrangement, by_hand;
    const struct argp_child children[] = {
        { options_hide(&plan_argp, of_time, &plan), 0, NULL, 0 },
        { options_hide(&holding_argp, NULL, &holding), 0, NULL, 0 },
        { options_hide(&arrangement_argp, of_places, &arrangement), 0, "Devices:", 6 },
        { options_hide(&given_plan_argp, of_kept, &by_hand), 0, "To price a plan instead of a search:", 7 },
        { &model_argp, 0, NULL, 0 },
        { 0 },
    };
    const struct argp argp = {
        .options = options,
        .parser = take,
        .children = children,
        .args_doc = "PROFILE",
        .doc = "Plans as another planner would, by its own model, in which a plan is worth its busiest stage, with the"
               " least there is or a bound; or says what a given plan is worth there. There is no schedule to it."
               " Ctrl-C ends it with the best so far."
               "\v--replicas goes with --cuts; a search chooses them. Exit code 1: nothing fits.\n\nExample:\n"
               "  weir bottleneck profile.json --model pipedream \\\n"
               "      --cluster \"16 devices, 16GiB, 12GB/s 5us\" -o plan.json\n",
    };
    command_parse(&argp, count, arguments, given);
}

static int run(int count, char **arguments)
{
    struct given given = { .plan.is_partial = true };
    given.by_hand.options = given.model.options = &given.plan;
    given.model.by_hand = &given.by_hand;
    parse(count, arguments, &given);
    return model_run(&given.model, &given.output);
}

const struct command command_bottleneck = { "bottleneck", "plan by the busiest stage, as other planners do", run };
