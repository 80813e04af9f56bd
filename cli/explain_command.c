// weir explain PLAN: why a plan is not faster, and what would make it faster.

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "cli/result.h"
#include "common/json.h"
#include "common/progress.h"
#include "partitioner/explain/explain.h"

enum { KEY_PROFILE = KEY_OWN, KEY_BUDGET };

struct explain_arguments {
    const char *plan, *profile;
    uint64_t budget;
    struct shared_options shared;  // OPTION_RESULT
};

static const struct argp_option options[] = {
    { "profile", KEY_PROFILE, "FILE", 0, "The profile that the plan was made of", 0 },
    { "budget", KEY_BUDGET, "N", 0, "Units of work each of some forty plans may take (500000, half a second)", 0 },
    OPTION_RESULT,
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_PROFILE, OPTION_FIELD(struct explain_arguments, profile) },
    { KEY_BUDGET, OPTION_FIELD(struct explain_arguments, budget), .least = 1, .most = JSON_MAX },
    { ARGP_KEY_ARG, OPTION_FIELD(struct explain_arguments, plan), .what = "plan" },
    { 0 },
};

static error_t parse_explain_option(int key, char *argument, struct argp_state *state)
{
    struct explain_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_END:
        if (!given->plan || !given->profile)
            argp_error(state, "a plan and --profile are needed");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_explain_option,
    .args_doc = "PLAN",
    .doc = "Says why a plan is not faster: what binds, where the time of an iteration goes, why the busiest rank's"
           " layers are not moved to its neighbours; and what more memory, quicker links, more micro-batches or ranks"
           " and other schedules would gain, each planned anew. Ctrl-C ends it with what is known."
           "\vExit code 1: the plan is not what its profile says.\n\nExample:\n"
           "  weir explain plan.json --profile profile.json\n",
};

static void show(void *self, size_t done)
{
    progress_show(self, "%zu changes planned anew", done);
}

static int explain(const struct explain_arguments *given, const struct plan *plan, const struct profile *profile,
                   struct error *error)
{
    struct progress progress = { 0 };
    const struct explain_request request = { .plan = plan, .profile = profile, .budget = given->budget,
                                             .interrupted = command_interrupted(), .progress = show,
                                             .self = &progress };
    struct explanation *explanation = explain_plan(&request, error);
    progress_end(&progress);
    if (!explanation) {
        error_at(error, "%s", given->plan);
        return command_fail(error);
    }
    struct result result = { 0 };
    explanation_write(explanation, &result.document);
    explanation_print(explanation, &result.table);
    explanation_free(explanation);
    return result_print(&result, &given->shared, 0);
}

static int run(int count, char **arguments)
{
    struct explain_arguments given = { .plan = NULL };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct plan *plan = plan_load(given.plan, &error);
    struct profile *profile = plan ? plan_profile(given.profile, &error) : NULL;
    const int code = profile ? explain(&given, plan, profile, &error) : command_fail(&error);
    profile_free(profile);
    plan_free(plan);
    return code;
}

const struct command command_explain = { "explain", "why a plan is not faster, and what would help", run };
