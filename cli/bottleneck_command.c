// weir bottleneck PROFILE --model NAME: plans by the busiest stage, as other planners do.

#include "cli/plan_command.h"
#include "cli/plan_model.h"

struct bottleneck_arguments {
    struct plan_options plan;
    struct given_plan by_hand;
    struct model_options model;
    struct shared_options output;
};

static void check(void *self, struct argp_state *state)
{
    const struct bottleneck_arguments *given = self;
    model_check(&given->model, state);
}

static int run(int count, char **arguments)
{
    static const char *const of_time[] = { "schedule", "chunks", "segments", "pin", "own-order", NULL };
    static const char *const of_places[] = { "devices", "variants", NULL };
    static const char *const of_kept[] = { "recompute", NULL };
    struct bottleneck_arguments given = { .plan.is_partial = true };
    struct hiding by_hand;
    given.by_hand.options = given.model.options = &given.plan;
    given.model.by_hand = &given.by_hand;
    const struct plan_command command = {
        .plan = &given.plan,
        .output = &given.output,
        .own = { { options_hide(&given_plan_argp, of_kept, &by_hand), 0, "To price a plan instead of a search:", 7 },
                 { &model_argp, 0, NULL, 0 } },
        .inputs = { &given.by_hand, &given.model },
        .without = of_time,
        .without_devices = of_places,
        .devices_heading = "Devices:",
        .check = check,
        .given = &given,
        .doc = "Plans as another planner would, by its own model, in which a plan is worth its busiest stage, with the"
               " least there is or a bound; or says what a given plan is worth there. There is no schedule to it."
               " Ctrl-C ends it with the best so far."
               "\v--replicas goes with --cuts; a search chooses them. Exit code 1: nothing fits.\n\nExample:\n"
               "  weir bottleneck profile.json --model pipedream \\\n"
               "      --cluster \"16 devices, 16GiB, 12GB/s 5us\" -o plan.json\n",
    };
    plan_command_parse(&command, count, arguments);
    return model_run(&given.model, &given.output);
}

const struct command command_bottleneck = { "bottleneck", "plan by the busiest stage, as other planners do", run };
