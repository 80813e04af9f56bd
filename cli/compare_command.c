// weir compare PLAN TRACE...: what was predicted against what was measured, and why they differ.

#include <stdlib.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "cli/traces.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/evaluate/refine.h"
#include "schedules/compare/deviation.h"

enum { KEY_REFINE = KEY_OWN };

struct given {
    const char *profile;  // of --refine
    struct subject_options subject;
    struct trace_options trace;
};

static const struct argp_option options[] = {
    SUBJECT_OPTIONS,
    { "iteration", KEY_ITERATION, "N", 0, "Which iteration of the trace, from 0 (the last)", 0 },
    { "refine", KEY_REFINE, "PROFILE", 0, "Of a plan: write its profile with the times of each stage's layers scaled "
      "to what was measured, to -o", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_REFINE:
        given->profile = argument;
        break;
    case ARGP_KEY_ARG:
        return given->subject.file ? trace_option(KEY_TRACE, argument, &given->trace, state)
                                   : subject_option(key, argument, &given->subject, state);
    case ARGP_KEY_END:
        if (given->trace.count == 0)
            argp_error(state, "a plan's or a schedule's file is needed, and those of a trace");
        if (given->trace.iteration == TRACE_ALL)
            argp_error(state, "--iteration: one, or last");
        if (given->profile && (given->subject.shared.json || !given->subject.shared.output))
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
    .parser = take,
    .args_doc = "FILE TRACE...",
    .doc = "Holds a run against its plan, or its schedule with costs: the iteration, the four bubbles, the peaks where "
           "the trace has them, and what actions take per stage and kind. FILE is as for weir simulate; the trace is of "
           "PyTorch's profiler or of Weir, of all ranks in a file or a file each.\v"
           "What the two differ by is put down to causes: the plan is simulated anew with the measured values of one "
           "of them at a time, and what the iteration then takes more or less is what it explains. Causes overlap, and "
           "need not sum up; with all of them at once the rest is unexplained.\n"
           "  stage   its actions take what they took on average\n"
           "  link    messages between two ranks take what they took at least\n"
           "  order   ranks do their actions in the order in which they did them\n"
           "  noise   single actions take more or less than others of their kind\n"
           "  gaps    ranks do nothing between actions though they could\n\n"
           "Examples:\n"
           "  weir compare plan.json rank*.json.gz\n"
           "  weir compare plan.json out/measured.trace.json --json -o why.json\n"
           "  weir compare plan.json rank*.json.gz --refine profile.json -o refined.json\n",
};

// --- results -----------------------------------------------------------------------

static void write_change(uint64_t predicted, uint64_t measured, const char *(*format)(uint64_t, char *),
                         struct text *text)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE], change[NUMBER_SIZE];
    text_add(text, "%12s  %12s", format(predicted, a), format(measured, b));
    if (predicted == measured) {
        text_add(text, "  =\n");
        return;
    }
    text_add(text, "  %s%s", measured < predicted ? "-" : "+",
             format(measured < predicted ? predicted - measured : measured - predicted, change));
    if (predicted > 0)
        text_add(text, " (%+.1f %%)", 100 * ((double)measured / (double)predicted - 1));
    text_add(text, "\n");
}

static void write_share(const char *name, double predicted, double measured, struct text *text)
{
    text_add(text, "%-20s %10.2f %%  %10.2f %%  %+.2f points\n", name, 100 * predicted, 100 * measured,
             100 * (measured - predicted));
}

static void write_numbers(const struct comparison *comparison, struct text *text)
{
    const struct bubble *a = &comparison->predicted->bubble, *b = &comparison->measured->bubble;
    text_add(text, "%-20s %12s  %12s  measured less predicted\n%-20s ", "", "predicted", "measured", "iteration");
    write_change(comparison->deviation->planned_ns, comparison->deviation->measured_ns, time_format, text);
    write_share("bubble: makespan", a->makespan, b->makespan, text);
    write_share("overhead", a->overhead, b->overhead, text);
    write_share("span", a->span, b->span, text);
    write_share("zb_rate", a->zb_rate, b->zb_rate, text);
    for (uint32_t rank = 0; rank < comparison->measured->ranks; rank++) {
        const uint64_t peak = comparison->measured->per_rank[rank].live_peak_bytes;
        char name[40];
        snprintf(name, sizeof name, "rank %u peak", rank);
        if (peak > 0) {
            text_add(text, "%-20s ", name);
            write_change(comparison->predicted_peaks[rank], peak, bytes_format, text);
        }
    }
}

static void write_rows(const struct deviation *deviation, struct text *text)
{
    text_add(text, "\nstage  actions\n");
    for (size_t i = 0; i < deviation->row_count; i++) {
        const struct deviation_row *row = &deviation->rows[i];
        text_add(text, "%5u  %-6s x %-5u ", row->stage, deviation_kind(row->kind), row->count);
        write_change(row->planned_ns, row->measured_ns, time_format, text);
    }
}

static void write_signed(int64_t ns, struct text *text)
{
    char time[NUMBER_SIZE], whole[NUMBER_SIZE + 1];
    snprintf(whole, sizeof whole, "%s%s", ns < 0 ? "-" : "+", time_format((uint64_t)(ns < 0 ? -ns : ns), time));
    text_add(text, "%10s", whole);
}

static void write_cause(const struct deviation_cause *cause, struct text *text)
{
    char predicted[NUMBER_SIZE], measured[NUMBER_SIZE];
    time_format(cause->planned_ns, predicted);
    time_format(cause->measured_ns, measured);
    switch (cause->kind) {
    case CAUSE_STAGE:
        text_add(text, "stage %u: its actions take %s than planned\n", cause->stage,
                 cause->explains_ns > 0 ? "longer" : "less");
        break;
    case CAUSE_LINK:
        text_add(text, "link: a message from rank %u to rank %u takes %s at least, %s as planned\n", cause->from,
                 cause->to, measured, predicted);
        break;
    case CAUSE_ORDER:
        text_add(text, "order: ranks did their actions in another one\n");
        break;
    case CAUSE_NOISE:
        text_add(text, "noise: actions of a kind do not all take the same\n");
        break;
    case CAUSE_GAPS:
        text_add(text, "gaps: %s of all ranks between actions, where nothing was waited for\n", measured);
        break;
    }
}

static void write_causes(const struct deviation *deviation, struct text *text)
{
    const int64_t apart = (int64_t)(deviation->measured_ns - deviation->planned_ns);
    const int64_t together = (int64_t)(deviation->together_ns - deviation->planned_ns);
    text_add(text, "\nwhat explains the difference, each cause by itself\n");
    for (size_t i = 0; i < deviation->cause_count; i++) {
        write_signed(deviation->causes[i].explains_ns, text);
        text_add(text, "  ");
        write_cause(&deviation->causes[i], text);
    }
    write_signed(together, text);
    text_add(text, "  all of them together\n");
    write_signed(apart - together, text);
    text_add(text, "  unexplained\n");
}

static void write_result(const struct given *given, const struct exhibit *measured, const struct comparison *comparison,
                         bool left_out, struct text *text)
{
    if (given->subject.shared.json) {
        comparison_write(comparison, text);
        return;
    }
    const struct trace_summary *trace = &measured->trace;
    shown_add(text, "%s: ", comparison->schedule);
    schedule_write_shape(measured->simulation.ranks, trace->stages, trace->micro_batches, text);
    text_add(text, "; iteration %u of 0 to %u\n", trace->iteration, trace->iterations - 1);
    if (left_out)
        text_add(text, "the trace shows no updates: the plan's are left out as well\n");
    text_add(text, "\n");
    write_numbers(comparison, text);
    write_rows(comparison->deviation, text);
    write_causes(comparison->deviation, text);
}

// --- the profile -------------------------------------------------------------------

static bool refine(const struct given *given, const struct deviation *deviation, struct text *text, struct error *error)
{
    const unsigned asked = BELONGS_BY_MODEL | BELONGS_BY_PROFILE;
    struct plan *plan = plan_load(given->subject.file, error);
    struct profile *profile = plan ? plan_profile(given->profile, error) : NULL;
    bool good = profile && plan_use(plan, given->subject.file, (struct plan_company){ profile->model, profile->hash },
                                    asked, BELONGS_BY_MODEL, error);
    if (good && !profile_refine(profile, plan, deviation->rows, deviation->row_count, error)) {
        command_name_files(error, given->subject.file, given->profile);
        good = false;
    }
    if (good)
        profile_write(profile, text);
    profile_free(profile);
    plan_free(plan);
    return good;
}

// --- all of it ---------------------------------------------------------------------

// `refined` is the profile, where one is asked for.
static bool compare(const struct given *given, struct text *text, struct text *refined, struct error *error)
{
    struct exhibit predicted = { 0 }, measured = { 0 };
    struct aligned aligned = { 0 };
    struct deviation deviation = { 0 };
    struct simulation simulation = { 0 };
    uint64_t *peaks = NULL;
    bool good = exhibit_simulate(&given->subject, DETAIL_NUMBERS, &predicted, error)
             && traces_load(&given->trace, &measured, error);
    const struct subject *subject = &predicted.subject;
    if (good && !aligned_create(&aligned, subject->schedule, subject->network, &measured.timeline, error)) {
        command_name_files(error, given->subject.file, given->trace.files[0]);
        good = false;
    }
    good = good && deviation_find(&aligned, &deviation, error)
        && schedule_simulate(aligned.schedule, NULL, aligned.network, &simulation, NULL, error);
    peaks = good ? calloc(simulation.ranks + (size_t)1, sizeof *peaks) : NULL;
    good = good && (peaks || error_no_memory(error, "a comparison"));
    for (uint32_t rank = 0; good && rank < simulation.ranks; rank++)
        peaks[rank] = predicted.simulation.per_rank[rank].live_peak_bytes;
    good = good && (!given->profile || refine(given, &deviation, refined, error));
    if (good)
        write_result(given, &measured, &(struct comparison){ subject->schedule->name, &simulation, &measured.simulation,
                                                             peaks, &deviation },
                     predicted.simulation.iteration_ns != aligned.planned_ns, text);
    free(peaks);
    simulation_clear(&simulation);
    deviation_clear(&deviation);
    aligned_clear(&aligned);
    exhibit_clear(&measured);
    exhibit_clear(&predicted);
    return good;
}

static int run(int count, char **arguments)
{
    struct given given = { .trace = { .iteration = TRACE_LAST, .has_iteration = true } };
    struct error error = { 0 };
    struct text text = { 0 }, refined = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (!compare(&given, &text, &refined, &error)) {
        text_clear(&text);
        text_clear(&refined);
        return command_fail(&error);
    }
    int (*const write)(struct text *, const char *, int) = given.subject.shared.json ? command_write : command_print;
    if (!given.profile)
        return write(&text, given.subject.shared.output, 0);
    const int code = write(&text, NULL, 0), other = command_write(&refined, given.subject.shared.output, 0);
    return code ? code : other;
}

const struct command command_compare = { "compare", "a run against its plan, and why they differ", run };
