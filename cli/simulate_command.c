// weir simulate FILE: what a schedule, or a plan, takes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/pictures.h"
#include "cli/subject.h"
#include "cli/worlds.h"
#include "common/json.h"
#include "common/number.h"
#include "schedules/costs.h"
#include "schedules/simulate.h"
#include "schedules/unit_steps.h"

enum { KEY_FORMAT = KEY_OWN, KEY_UNIT_STEPS };
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SVG, FORMAT_TRACE };

static const char *const format_names[] = { "text", "json", "svg", "trace", NULL };

struct given {
    struct subject_options subject;
    enum format format;
    bool unit_steps;
    struct picture_options picture;
    struct world_options world;
};

static const struct argp_option options[] = {
    SUBJECT_OPTIONS,
    OPTION_MICRO_BATCHES,
    OPTION_SCHEDULE,
    { "format", KEY_FORMAT, "FORMAT", 0, "text (the default), json, svg, trace (Chrome trace events)", 0 },
    { "unit-steps", KEY_UNIT_STEPS, 0, 0,
      "Count steps instead, as PyTorch's simulator does: every action takes one, SENDs and RECVs too; no costs", 0 },
    CHART_OPTIONS,
    OPTION_MESSAGES,
    WORLD_OPTIONS,
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

// --- arguments ------------------------------------------------------------------

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_FORMAT:
        given->format = (enum format)option_name(argument, "--format", format_names, state);
        break;
    case KEY_UNIT_STEPS:
        given->unit_steps = true;
        break;
    case KEY_JSON:
        given->format = FORMAT_JSON;
        break;
    default:
        if (picture_option(key, argument, &given->picture, state) != ARGP_ERR_UNKNOWN
            || world_option(key, argument, &given->world, state) != ARGP_ERR_UNKNOWN)
            return 0;
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "FILE",
    .doc = "Says what a plan or a schedule (PyTorch's CSV among them) takes: time, the four bubbles, bytes per rank. "
           "FILE may be \"-\", standard input.\v"
           "A schedule needs costs: its own, or --cost. Messages cost what --cost or --cluster says (rank r on device "
           "r); in a plan, what its own cluster says. "
           "--micro-batches and --schedule change those of a plan, whose cuts and recomputation stay.\n\nExamples:\n"
           "  weir schedule 1f1b --ranks 8 --micro-batches 24 --format json > 1f1b.json\n"
           "  weir simulate 1f1b.json --cost 18522us,18086us,9337us,601us\n"
           "  weir simulate 1f1b.json --cost 18522us,18086us,9337us,601us --one-lane --noise 5%\n",
};

// --- results -----------------------------------------------------------------------

static void write_table(const struct simulation *simulation, const struct subject *subject, struct text *text)
{
    const uint64_t unit = subject->unit_ns;
    char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], again[NUMBER_SIZE], peak[NUMBER_SIZE];
    text_add(text, "rank       first        last        busy   recompute   live peak  in flight\n");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        const struct rank_result *result = &simulation->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s  %10s  %9u", rank, costs_format(unit, result->first_ns, first),
                 costs_format(unit, result->last_ns, last), costs_format(unit, result->busy_ns, busy),
                 costs_format(unit, result->recompute_ns, again), bytes_format(result->live_peak_bytes, peak),
                 result->peak_in_flight);
        if (subject->capacity_bytes && result->live_peak_bytes > subject->capacity_bytes[rank])
            text_add(text, "  does not fit into %s", bytes_format(subject->capacity_bytes[rank], peak));
        text_add(text, "\n");
    }
}

// Each cause there is, and its share of the whole.
static void write_critical_path(const struct critical_path *path, uint64_t iteration_ns, uint64_t unit_ns,
                                struct text *text)
{
    const struct {
        const char *name;
        uint64_t ns;
    } causes[] = { { "computing", path->compute_ns }, { "recomputing", path->recompute_ns },
                   { "latency", path->latency_ns }, { "transfers", path->transfer_ns },
                   { "waiting for links", path->order_ns } };
    const char *before = "critical path  ";
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        char time[NUMBER_SIZE];
        if (causes[i].ns == 0)
            continue;
        text_add(text, "%s%s %s (%.1f %%)", before, causes[i].name, costs_format(unit_ns, causes[i].ns, time),
                 100 * (double)causes[i].ns / (double)iteration_ns);
        before = ", ";
    }
    text_add(text, "\n");
}

static void write_summary(const struct simulation *simulation, const struct subject *subject, struct text *text)
{
    const struct schedule *schedule = subject->schedule;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    const struct bubble *bubble = &simulation->bubble;
    const uint64_t unit = subject->unit_ns;
    text_add(text, "%s: %u ranks, %u stages, %u micro-batches, weights %s\n", schedule->name, schedule->ranks,
             schedule->stages, schedule->micro_batches, weights_names[schedule->weights]);
    if (unit)
        text_add(text, "unit           1 is %llu ns, so that all costs are whole\n", (unsigned long long)unit);
    text_add(text, "time           %s (%llu ns); longest span of a rank %s\n",
             costs_format(unit, simulation->iteration_ns, a), (unsigned long long)simulation->iteration_ns,
             costs_format(unit, simulation->max_span_ns, b));
    if (subject->steady_ns)
        text_add(text, "iteration      %s (%llu ns): %u more micro-batches once the pipeline is full\n",
                 costs_format(unit, subject->steady_ns, a), (unsigned long long)subject->steady_ns,
                 schedule->micro_batches);
    text_add(text, "bubble         makespan %.2f %%, overhead %.2f %%, span %.2f %%, zb_rate %.2f %%\n",
             100 * bubble->makespan, 100 * bubble->overhead, 100 * bubble->span, 100 * bubble->zb_rate);
    write_critical_path(&simulation->critical_path, simulation->iteration_ns, unit, text);
}

// NULL where nothing is kept: a column of zeros says nothing.
static bool copy_peaks(const struct simulation *simulation, uint64_t **peaks, struct error *error)
{
    bool any = false;
    *peaks = calloc(simulation->ranks, sizeof **peaks);
    if (!*peaks)
        return error_no_memory(error, "a chart");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        (*peaks)[rank] = simulation->per_rank[rank].live_peak_bytes;
        any |= (*peaks)[rank] > 0;
    }
    if (!any) {
        free(*peaks);
        *peaks = NULL;
    }
    return true;
}

static void draw_chart(const struct given *given, const struct timeline *timeline, const uint64_t *peaks,
                       struct text *text)
{
    struct text_chart chart = picture_chart(&given->picture, given->subject.shared.output);
    chart.sides = true;
    chart.peak_bytes = peaks;
    timeline_draw_text(timeline, &chart, text);
}

static void write_result(const struct given *given, const struct subject *subject,
                         const struct simulation *simulation, const struct worlds *worlds,
                         const struct timeline *timeline, const uint64_t *peaks, struct text *text)
{
    const struct schedule *schedule = subject->schedule;
    const struct simulation_extras extras = worlds_extras(worlds);
    char title[128];
    switch (given->format) {
    case FORMAT_TEXT:
        write_summary(simulation, subject, text);
        worlds_write_summary(worlds, subject->unit_ns, text);
        text_add(text, "\n");
        write_table(simulation, subject, text);
        text_add(text, "\n");
        worlds_write_table(worlds, subject->unit_ns, text);
        draw_chart(given, timeline, peaks, text);
        break;
    case FORMAT_JSON:
        simulation_write_with(simulation, schedule, &extras, text);
        break;
    case FORMAT_SVG:
        snprintf(title, sizeof title, "%s, %u ranks, %u micro-batches", schedule->name, schedule->ranks,
                 schedule->micro_batches);
        timeline_draw_svg(timeline, &(struct svg_chart){ title, given->picture.messages, peaks }, text);
        break;
    case FORMAT_TRACE:
        timeline_write_trace(timeline, text);
        break;
    }
}

// A plan made by hand states nothing. What is no text has no place to say what 1 is.
static void warn(const struct given *given, const struct subject *subject, const struct simulation *simulation)
{
    if (subject->unit_ns > 1 && given->format != FORMAT_TEXT)
        fprintf(stderr, "weir: 1 is %llu ns, so that all costs are whole\n", (unsigned long long)subject->unit_ns);
    const uint64_t taken_ns = subject->steady_ns ? subject->steady_ns : simulation->iteration_ns;
    if (subject->stated_ns && subject->stated_ns != taken_ns)
        fprintf(stderr, "weir: %s: predicted.iteration_ns: is %llu, but it takes %llu: the plan was changed since it was"
                        " made (weir check PLAN --profile PROFILE says where)\n", given->subject.file, (unsigned long long)subject->stated_ns,
                (unsigned long long)taken_ns);
}

// Documents and charts hold no more.
static bool is_sensible(const struct given *given, const struct simulation *simulation, struct error *error)
{
    if (simulation->iteration_ns > JSON_MAX)
        return error_set(error, "%s: takes more than 2^53 - 1 ns, 104 days: its costs or the cluster's latency are too"
                                " high", given->subject.file);
    for (uint32_t rank = 0; rank < simulation->ranks; rank++)
        if (simulation->per_rank[rank].live_peak_bytes > JSON_MAX)
            return error_set(error, "%s: rank %u would hold more than 2^53 - 1 bytes: what its stages keep is too much",
                             given->subject.file, rank);
    return true;
}

static bool simulate(const struct given *given, struct text *text, struct error *error)
{
    struct subject subject = { 0 };
    struct simulation simulation = { 0 };
    struct worlds worlds = { .has_lanes = false };
    struct timeline timeline = { 0 };
    uint64_t *peaks = NULL;
    const bool draws = given->format != FORMAT_JSON;
    const bool good = subject_load(&given->subject, &subject, error)
                   && subject_wants_costs(&given->subject, &subject, error)
                   && schedule_simulate(subject.schedule, NULL, subject.network, &simulation,
                                        draws ? &timeline : NULL, error)
                   && is_sensible(given, &simulation, error) && copy_peaks(&simulation, &peaks, error)
                   && worlds_run(&given->world, &subject, &worlds, draws ? &timeline : NULL, error);
    if (good)
        warn(given, &subject, &simulation);
    if (good)
        write_result(given, &subject, &simulation, &worlds, &timeline, worlds.has_lanes ? NULL : peaks, text);
    free(peaks);
    worlds_clear(&worlds);
    simulation_clear(&simulation);
    timeline_clear(&timeline);
    subject_clear(&subject);
    return good;
}

static bool count_steps(const struct given *given, struct text *text, struct error *error)
{
    struct subject subject = { 0 };
    uint64_t steps;
    const bool good = subject_load(&given->subject, &subject, error)
                   && schedule_unit_steps(subject.schedule, &steps, error);
    if (good)
        text_add(text, "%s: %llu steps\n", subject.schedule->name, (unsigned long long)steps);
    subject_clear(&subject);
    return good;
}

static int run(int count, char **arguments)
{
    struct given given = { .format = FORMAT_TEXT };
    struct error error = { 0 };
    struct text text = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (given.unit_steps ? count_steps(&given, &text, &error) : simulate(&given, &text, &error))
        return command_write(&text, given.subject.shared.output, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_simulate = { "simulate", "what a plan or schedule takes: time, bubbles, bytes, a chart", run };
