// weir partition PROFILE: which layers on which devices, and which are recomputed.

#include <string.h>

#include "cli/command.h"
#include "cli/plan_find.h"
#include "cli/plan_front_options.h"
#include "cli/plan_given.h"
#include "cli/plan_model.h"
#include "cli/plan_stability.h"

enum { KEY_SECOND_OPINION = KEY_OWN, KEY_FOR };

// What now are the commands price, keep, front and bottleneck was asked of this one once, and still can be: options
// that --help does not show.
struct given {
    struct plan_options plan;
    struct given_plan by_hand;
    struct stability_options stability;
    struct model_options model;
    struct front_options front;
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

// --front, which is about many plans.
static void check_front(const struct given *given, struct argp_state *state)
{
    if (given->second_opinion || given->stability.keep || given->stability.has_noise
        || given_plan_is_asked(&given->by_hand))
        argp_error(state, "--front is about many plans; leave out what is asked of one");
    front_check(&given->front, &given->plan, &given->output, state);
}

// A plan that was given, which leaves nothing to be searched for but what it is compared with.
static void check_by_hand(const struct given *given, struct argp_state *state)
{
    if (given->second_opinion || given->stability.keep || given->stability.has_noise)
        argp_error(state, "%s prices one plan; --keep, --noise, --variants and --second-opinion are for a search",
                   given_plan_option(&given->by_hand));
    given_plan_check(&given->by_hand, state);
}

// Another planner's model, which knows no schedules.
static void check_model(const struct given *given, struct argp_state *state)
{
    if (given->front.is_asked || given->stability.keep || given->stability.has_noise)
        argp_error(state, "--front, --keep and --noise are about simulated time; leave --model out");
    if (given->second_opinion)
        argp_error(state, "--second-opinion is for plans by simulated time, not for --model");
    model_check(&given->model, state);
}

static void check_target(const struct given *given, struct argp_state *state)
{
    if (given->target != TARGET_ANY && (given->model.name || given->front.is_asked || given->stability.keep
                                        || given->second_opinion || given_plan_is_asked(&given->by_hand)))
        argp_error(state, "--for is for a search of its own; leave the rest out");
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        plan_child_inputs(&given->plan, state->child_inputs);
        state->child_inputs[PLAN_CHILDREN] = &given->by_hand;
        state->child_inputs[PLAN_CHILDREN + 1] = &given->stability;
        state->child_inputs[PLAN_CHILDREN + 2] = &given->front;
        state->child_inputs[PLAN_CHILDREN + 3] = &given->model;
        return 0;
    case KEY_SECOND_OPINION:
        given->second_opinion = true;
        return 0;
    case KEY_FOR:
        given->target = (enum plan_target)option_name(argument, "--for", plan_target_names, state);
        return 0;
    case ARGP_KEY_END:
        check_target(given, state);
        if (given->model.name)
            check_model(given, state);
        else if (given->front.is_asked)
            check_front(given, state);
        else if (given_plan_is_asked(&given->by_hand))
            check_by_hand(given, state);
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static void parse(int count, char **arguments, struct given *given)
{
    struct hiding by_hand, stability, front, model;
    const struct argp_child children[] = {
        { &plan_argp, 0, NULL, 0 },
        { &holding_argp, 0, "States:", 6 },
        { &arrangement_argp, 0, "Devices:", 7 },
        { options_hide(&given_plan_old_argp, NULL, &by_hand), 0, NULL, 0 },
        { options_hide(&stability_old_argp, NULL, &stability), 0, NULL, 0 },
        { options_hide(&front_old_argp, NULL, &front), 0, NULL, 0 },
        { options_hide(&model_argp, NULL, &model), 0, NULL, 0 },
        { 0 },
    };
    const struct argp argp = {
        .options = options,
        .parser = take,
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
    struct given given = { .by_hand.is_old_spelling = true, .stability.is_old_spelling = true };
    given.by_hand.options = given.model.options = &given.plan;
    given.model.by_hand = &given.by_hand;
    parse(count, arguments, &given);
    if (given.model.name)
        return model_run(&given.model, &given.output);
    if (given_plan_is_asked(&given.by_hand))
        return given_plan_run(&given.by_hand, &given.output);
    if (given.front.is_asked)
        return front_run(&given.front, &given.plan, &given.output);
    return plan_find_run(&(struct plan_finding){ .plan = &given.plan, .stability = &given.stability,
                                                 .second_opinion = given.second_opinion, .target = given.target,
                                                 .output = &given.output });
}

const struct command command_partition = { "partition", "cut a model into stages, decide what to recompute", run };
