// weir compare PLAN TRACE...: compares predicted with measured times, and says why they differ.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "cli/subject.h"
#include "cli/traces.h"
#include "partitioner/evaluate/expert_usage.h"
#include "partitioner/evaluate/refine.h"
#include "schedules/compare/comparison.h"
#include "trainer/expert_reroute.h"
#include "trainer/model_spec.h"

enum { KEY_REFINE = KEY_OWN, KEY_PROFILE };

struct compare_arguments {
    const char *refine;   // the profile of --refine
    const char *profile;  // of --profile, or the same
    struct subject_options subject;
    struct trace_options trace;
};

static const struct argp_option options[] = {
    SUBJECT_OPTIONS,
    NAMED_OPTIONS,
    OPTION_NAMED_MICRO_BATCHES,
    { "iteration", KEY_ITERATION, "N", 0, "Which iteration of the trace, from 0 (the last)", 0 },
    { "refine", KEY_REFINE, "PROFILE", 0, "Of a plan: write its profile with the times of each stage's layers scaled "
      "to what was measured, to -o", 0 },
    { "profile", KEY_PROFILE, "PROFILE", 0, "Of a plan: its profile, which says what was planned for experts", 0 },
    OPTION_RESULT,
    { 0 },
};

static error_t parse_compare_option(int key, char *argument, struct argp_state *state)
{
    struct compare_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        return given->subject.file ? trace_option(KEY_TRACE, argument, &given->trace, state)
                                   : subject_option(key, argument, &given->subject, state);
    case KEY_REFINE:
        given->refine = argument;
        break;
    case KEY_PROFILE:
        given->profile = argument;
        break;
    case ARGP_KEY_END:
        if (given->trace.count == 0)
            argp_error(state, "a plan's or a schedule's file is needed, and those of a trace");
        if (given->trace.iteration == TRACE_ALL)
            argp_error(state, "--iteration: one, or last");
        if (given->refine && (given->subject.shared.json || !given->subject.shared.output))
            argp_error(state, "--refine: needs -o FILE, where the profile goes, and goes without --json");
        return subject_option(key, argument, &given->subject, state);
    default:
        return trace_option(key, argument, &given->trace, state) != ARGP_ERR_UNKNOWN
                 ? 0 : subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_compare_option,
    .args_doc = "FILE TRACE...",
    .doc = "Holds a run against its plan, or its schedule with costs: the iteration, the four bubbles, the peaks where "
           "the trace has them, and what actions take per stage and kind. FILE is as for weir simulate; the trace is"
           " of PyTorch's profiler or of Weir, of all ranks in a file or a file each.\v"
           "What the two differ by is put down to causes: the plan is simulated anew with the measured values of one "
           "of them at a time, and what the iteration then takes more or less is what it explains. Causes overlap, and "
           "need not sum up; with all of them at once the rest is unexplained.\n"
           "  stage     its actions take what they took on average\n"
           "  link      messages between two ranks take what they took at least\n"
           "  exchange  what devices of a stage exchange takes what it took on average\n"
           "  order     ranks do their actions in the order in which they did them\n"
           "  noise     single actions take more or less than others of their kind\n"
           "  gaps      ranks do nothing between actions though they could\n\n"
           "Examples:\n"
           "  weir compare plan.json rank*.json.gz\n"
           "  weir compare plan.json out/measured.trace.json --json -o why.json\n"
           "  weir compare plan.json rank*.json.gz --refine profile.json -o refined.json\n",
};

// --- the profile -------------------------------------------------------------------

// The plan with its profile and the routing that the run counted. Each is NULL if it is not given, or not there.
struct planned {
    struct plan *plan;
    struct profile *profile;
    struct profile_routing *routing;
    struct stage_exchange *within;
};

static bool load_planned(const struct compare_arguments *given, const struct measured_run *run,
                         struct planned *planned, struct error *error)
{
    const char *file = given->refine ? given->refine : given->profile;
    if (!expert_routing_of(run, given->trace.files[0], &planned->routing, error))
        return false;
    if (!planned->routing && !file)
        return true;
    // A schedule has no stages with experts.
    struct error ignored = { 0 };
    planned->plan = plan_load(given->subject.file, file ? error : &ignored);
    if (!planned->plan && !file)
        return true;
    planned->profile = planned->plan && file ? plan_profile(file, error) : NULL;
    if (!planned->plan || (file && !planned->profile))
        return false;
    if (!planned->routing && expert_layers_are_in(planned->profile))
        command_say("%s: has no counts of experts, which weir train --out writes: their routing is not compared%s",
                    given->trace.files[0], given->refine ? ", and stays in the profile as it is" : "");
    if (planned->routing && !(planned->within = expert_exchanges_find(planned->plan, planned->profile,
                                                                      planned->routing, error)))
        return false;
    return !given->profile || given->refine
        || plan_use_with(planned->plan, given->subject.file, planned->profile, file, BELONGS_BY_PROFILE,
                         BELONGS_BY_PROFILE, error);
}

static void planned_clear(struct planned *planned)
{
    plan_free(planned->plan);
    profile_free(planned->profile);
    routing_free(planned->routing);
    free(planned->within);
}

static bool reroute(const struct planned *planned, struct error *error)
{
    struct model *model = model_from_spec(planned->plan->model, PRECISION_FP32, error);
    const bool good = model && expert_reroute(planned->profile, model, planned->plan->stages[0].variant,
                                              planned->routing, error);
    model_free(model);
    return good;
}

static bool refine(const struct compare_arguments *given, const struct planned *planned,
                   const struct deviation *deviation, struct text *text, struct error *error)
{
    struct profile *profile = planned->profile;
    const bool good = profile_refine(profile, planned->plan, deviation->rows, deviation->row_count, error)
                   && (!planned->routing || reroute(planned, error));
    if (!good)
        command_name_files(error, given->subject.file, given->refine);
    if (good)
        profile_write(profile, text);
    return good;
}

// --- all of it ---------------------------------------------------------------------

// Writes the refined profile to `refined`, if it is requested.
static bool compare(const struct compare_arguments *given, struct text *text, struct text *refined, struct error *error)
{
    struct priced subject = { 0 };
    struct measured_run run = { 0 };
    struct comparison comparison = { 0 };
    struct planned planned = { 0 };
    bool good = subject_load(&given->subject, &subject, error) && subject_wants_costs(&given->subject, &subject, error)
             && traces_load(&given->trace, &run, error);
    good = good && load_planned(given, &run, &planned, error);
    if (good && !comparison_create(&comparison, subject.schedule, subject.network, &run, planned.within, error)) {
        command_name_files(error, given->subject.file, given->trace.files[0]);
        good = false;
    }
    good = good
        && (!planned.routing || !planned.plan
            || expert_usage_find(planned.plan, planned.profile, planned.routing, &comparison.experts,
                                 &comparison.expert_count, error))
        && (!given->refine || refine(given, &planned, &comparison.deviation, refined, error));
    if (good)
        (given->subject.shared.json ? comparison_write : comparison_print)(&comparison, text);
    planned_clear(&planned);
    comparison_clear(&comparison);
    measured_run_clear(&run);
    priced_clear(&subject);
    return good;
}

static int run(int count, char **arguments)
{
    struct compare_arguments given = { .trace = { .iteration = TRACE_LAST, .has_iteration = true } };
    struct error error = { 0 };
    struct text text = { 0 }, refined = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (!compare(&given, &text, &refined, &error)) {
        text_clear(&text);
        text_clear(&refined);
        return command_fail(&error);
    }
    int (*const write)(struct text *, const char *, int) = given.subject.shared.json ? command_write : command_print;
    if (!given.refine)
        return write(&text, given.subject.shared.output, 0);
    const int code = write(&text, NULL, 0), other = command_write(&refined, given.subject.shared.output, 0);
    return code ? code : other;
}

const struct command command_compare = { "compare", "a run against its plan, and why they differ", run };
