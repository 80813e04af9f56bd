// weir simulate FILE: simulates a schedule or a plan.

#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/exhibit.h"
#include "cli/pictures.h"
#include "cli/traces.h"
#include "cli/worlds.h"
#include "common/shown.h"
#include "schedules/simulation_table.h"
#include "schedules/unit_steps.h"

enum { KEY_FORMAT = KEY_OWN, KEY_AGAINST, KEY_UNIT_STEPS };
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SVG, FORMAT_HTML, FORMAT_TRACE };

static const char *const format_names[] = { "text", "json", "svg", "html", "trace", NULL };

struct simulate_arguments {
    struct subject_options subject;
    struct trace_options trace;
    const char *against;
    enum format format;
    bool unit_steps;
    struct picture_options picture;
    struct world_options world;
};

static const struct argp_option options[] = {
    SUBJECT_OPTIONS,
    OPTION_MICRO_BATCHES,
    OPTION_SCHEDULE,
    NAMED_OPTIONS,
    { "format", KEY_FORMAT, "FORMAT", 0, "text (the default), json, svg, html (a page to zoom in), trace "
      "(Chrome trace events)", 0 },
    { "against", KEY_AGAINST, "FILE", 0, "Compare with another plan, schedule (of the same costs, if it has none) or "
      "trace", 0 },
    TRACE_OPTIONS,
    { "unit-steps", KEY_UNIT_STEPS, 0, 0,
      "Count steps instead, as PyTorch's simulator does: every action takes one, SENDs and RECVs too; no costs", 0 },
    CHART_OPTIONS("Columns of the text chart (else the terminal's or 110), pixels of the SVG (else 1338)"),
    SVG_OPTIONS,
    WORLD_OPTIONS,
    OPTION_RESULT,
    { 0 },
};

// --- arguments ------------------------------------------------------------------

static bool has_costs(const struct subject_options *subject)
{
    return subject->cost || subject->kept.has_forward || subject->shared.cluster;
}

static bool changes_plan(const struct subject_options *subject)
{
    return subject->shared.schedule || subject->shared.micro_batches || subject_says_size(subject);
}

static void check_picture(const struct picture_options *picture, enum format format, struct argp_state *state)
{
    const bool is_svg = format == FORMAT_SVG;
    if ((picture->font || picture->messages) && !is_svg)
        argp_error(state, "--font and --messages are of --format svg");
    if (picture->title && !is_svg && format != FORMAT_HTML)
        argp_error(state, "--title is of --format svg and html");
    if (picture->width && !is_svg && format != FORMAT_TEXT)
        argp_error(state, "--width is of --format text and svg");
    if (picture->width && is_svg && picture->width < SVG_LEAST_WIDTH)
        argp_error(state, "--width: an SVG has %d pixels or more", SVG_LEAST_WIDTH);
}

// Refuses options that exclude each other; `state` can end the program.
static void check_options(const struct simulate_arguments *given, struct argp_state *state)
{
    const bool measured = given->trace.count > 0, asks_worlds = given->world.use != LANES_FREE
        || given->world.has_noise;
    if (given->unit_steps
        && (has_costs(&given->subject) || given->against || given->format != FORMAT_TEXT || asks_worlds))
        argp_error(state,
                   "--unit-steps: prints a number of steps: it goes without costs, links, lanes, noise and formats");
    if (given->against && given->format != FORMAT_TEXT && given->format != FORMAT_HTML)
        argp_error(state, "--against: only text and html show two");
    if (measured && (given->unit_steps || asks_worlds))
        argp_error(state, "--trace: was measured: nothing can be simulated of it");
    if (measured && !given->against && (has_costs(&given->subject) || changes_plan(&given->subject)))
        argp_error(state, "--trace: has its own times: costs, clusters and the like are for what it is held --against");
    if (given->trace.has_iteration && !measured && !given->against)
        argp_error(state, "--iteration: is of a trace");
    check_picture(&given->picture, given->format, state);
}

static const struct option_field fields[] = {
    { KEY_FORMAT, OPTION_FIELD(struct simulate_arguments, format), .names = format_names },
    { KEY_UNIT_STEPS, OPTION_FIELD(struct simulate_arguments, unit_steps) },
    { KEY_AGAINST, OPTION_FIELD(struct simulate_arguments, against) },
    { 0 },
};

static error_t parse_simulate_option(int key, char *argument, struct argp_state *state)
{
    struct simulate_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_END:
        check_options(given, state);
        world_option(key, argument, &given->world, state);
        return given->trace.count > 0 ? 0 : subject_option(key, argument, &given->subject, state);
    case KEY_JSON:
        given->format = FORMAT_JSON;
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        if (picture_option(key, argument, &given->picture, state) != ARGP_ERR_UNKNOWN
            || trace_option(key, argument, &given->trace, state) != ARGP_ERR_UNKNOWN
            || world_option(key, argument, &given->world, state) != ARGP_ERR_UNKNOWN)
            return 0;
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_simulate_option,
    .args_doc = "FILE",
    .doc = "Says what a plan or a schedule (PyTorch's CSV among them) takes: time, the four bubbles, bytes per rank. "
           "FILE may be \"-\", standard input, or a schedule's name.\v"
           "A schedule needs costs: its own, or --cost. Messages cost what --cost or --cluster says (rank r on device "
           "r); in a plan, what its own cluster says. "
           "--micro-batches and --schedule change those of a plan, whose cuts and recomputation stay.\n\n"
           "Bubbles, where T is from the first start to the last end:\n"
           "  makespan  the share of T in which ranks are idle, on average\n"
           "  overhead  how much T exceeds the most work of a rank, as a share of it\n"
           "  span      a rank's idle share from its own first start to its last end; the\n"
           "            largest of all ranks\n"
           "  zb_rate   the longest such span less the most work, as a share of that span:\n"
           "            what the zero-bubble papers print\n\n"
           "Examples:\n"
           "  weir simulate zb-v --ranks 8 --micro-batches 24 \\\n"
           "      --cost 18522us,18086us,9337us,601us\n"
           "  weir simulate mine.csv --cost 18522us,18086us,9337us,601us \\\n"
           "      --one-lane --noise 5%\n"
           "  weir simulate plan.json --against other.json --format html -o page.html\n"
           "  weir simulate --trace rank*.json.gz --against plan.json\n",
};

// --- results -----------------------------------------------------------------------

static void draw_chart(const struct simulate_arguments *given, const struct exhibit *shown, struct text *text)
{
    struct text_chart chart = picture_chart(&given->picture, given->subject.shared.output);
    chart.sides = true;
    chart.peak_bytes = shown->peak_bytes;
    timeline_draw_text(&shown->run.timeline, &chart, text);
}

// What `weir simulate` prints: a run in the usual simulation, the additions that were requested (worlds.h), and what
// it is compared with, if anything.
struct result {
    struct exhibit shown;
    struct worlds worlds;
    struct exhibit other;
    bool has_other;
};

static bool write_text(const struct simulate_arguments *given, const struct result *result, struct text *text,
                       struct error *error)
{
    const struct exhibit *shown = &result->shown;
    const uint64_t unit_ns = shown->subject.unit_ns;
    const struct simulation_shown table = { &shown->run.simulation, shown->subject.schedule, unit_ns,
                                            shown->subject.steady_ns, shown->subject.capacity_bytes };
    if (shown->measured) {
        measured_run_print(&shown->run, text);
    } else {
        simulation_print(&table, text);
        worlds_write_summary(&result->worlds, unit_ns, text);
        text_add(text, "\n");
        simulation_print_ranks(&table, text);
        text_add(text, "\n");
        worlds_write_table(&result->worlds, unit_ns, text);
    }
    draw_chart(given, shown, text);
    if (!given->against)
        return true;
    text_add(text, "\n");
    if (!exhibit_compare(shown, &result->other, text, error))
        return false;
    text_add(text, "\n");
    draw_chart(given, &result->other, text);
    return true;
}

static bool write_result(const struct simulate_arguments *given, const struct result *result, struct text *text,
                         struct error *error)
{
    const struct exhibit *shown = &result->shown;
    const struct svg_chart chart = picture_svg(&given->picture, shown->name, shown->peak_bytes);
    const struct simulation_extras extras = worlds_extras(&result->worlds);
    const struct schedule measured = { .name = "measured", .ranks = shown->run.simulation.ranks,
                                       .stages = shown->run.trace.stages,
                                       .micro_batches = shown->run.trace.micro_batches };
    switch (given->format) {
    case FORMAT_TEXT:
        return write_text(given, result, text, error);
    case FORMAT_JSON:
        simulation_write_with(&shown->run.simulation, shown->measured ? &measured : shown->subject.schedule, &extras,
                              text);
        return true;
    case FORMAT_SVG:
        timeline_draw_svg(&shown->run.timeline, &chart, text);
        return true;
    case FORMAT_HTML:
        return exhibit_draw_page(shown, result->has_other ? &result->other : NULL, NULL, text, error);
    case FORMAT_TRACE:
        timeline_write_trace(&shown->run.timeline, text);
        return true;
    }
    return true;
}

// Warns about two things: numbers without units do not say what 1 is, and runs with unlike work are not comparable,
// even though they are compared.
static void warn(const struct simulate_arguments *given, const struct result *result)
{
    const struct priced *subject = &result->shown.subject;
    struct text why = { 0 };
    if (given->against && !timeline_is_same_work(&result->shown.run.timeline, &result->other.run.timeline, &why)
        && !why.failed)
        command_say("%s", why.data);
    text_clear(&why);
    if (subject->unit_ns > 1 && (given->format == FORMAT_JSON || given->format == FORMAT_TRACE))
        command_say("1 is %llu ns, so that all costs are whole", (unsigned long long)subject->unit_ns);
}

static enum exhibit_detail detail_of(const struct simulate_arguments *given)
{
    return given->format == FORMAT_JSON ? DETAIL_NUMBERS
         : given->format == FORMAT_HTML || given->format == FORMAT_TRACE ? DETAIL_LEVELS : DETAIL_TIMELINE;
}

static bool load_other(const struct simulate_arguments *given, struct exhibit *other, struct error *error)
{
    if (trace_is_likely(given->against)) {
        struct trace_options trace = { .files = { given->against }, .count = 1, .iteration = given->trace.iteration,
                                       .has_iteration = given->trace.has_iteration };
        return exhibit_measured(&trace, other, error);
    }
    struct subject_options subject = given->subject;
    subject.file = given->against;
    return exhibit_simulate(&subject, detail_of(given), other, error);
}

// On a page, the run with shared lanes is shown beside the same run with unshared ones.
static bool show_lanes_beside(struct result *result, enum lane_use use, struct error *error)
{
    struct exhibit *shown = &result->shown, *other = &result->other;
    result->has_other = true;
    other->file = shown->file;
    snprintf(other->name, sizeof other->name, "the same, %s",
             use == LANES_ONE ? "its messages on one lane" : "doing nothing else while it sends or receives");
    return timeline_measure(&other->run.timeline, &other->run.simulation, error);
}

// In all other output, shared lanes replace the usual run. The bytes of such a run are not counted.
static bool run_worlds(const struct simulate_arguments *given, struct result *result, struct error *error)
{
    struct exhibit *shown = &result->shown;
    const bool beside = given->format == FORMAT_HTML && !given->against;
    struct timeline *drawn = beside ? &result->other.run.timeline : &shown->run.timeline;
    if (!worlds_run(&given->world, &shown->subject, &result->worlds, given->format == FORMAT_JSON ? NULL : drawn,
                    error))
        return false;
    if (!result->worlds.has_lanes)
        return true;
    if (beside)
        return show_lanes_beside(result, given->world.use, error);
    free(shown->peak_bytes);
    shown->peak_bytes = NULL;
    if (given->format != FORMAT_HTML)
        return true;
    simulation_clear(&shown->run.simulation);
    return timeline_measure(&shown->run.timeline, &shown->run.simulation, error);
}

static bool simulate(const struct simulate_arguments *given, struct text *text, struct error *error)
{
    struct result result = { .worlds.has_lanes = false };
    bool good = given->trace.count > 0
                  ? exhibit_measured(&given->trace, &result.shown, error)
                  : exhibit_simulate(&given->subject, detail_of(given), &result.shown, error)
                        && run_worlds(given, &result, error);
    if (good && given->against) {
        result.has_other = true;
        good = load_other(given, &result.other, error);
    }
    if (good) {
        warn(given, &result);
        result.shown.title = given->picture.title;
        good = write_result(given, &result, text, error);
    }
    exhibit_clear(&result.shown);
    worlds_clear(&result.worlds);
    exhibit_clear(&result.other);
    return good;
}

static bool count_steps(const struct simulate_arguments *given, struct text *text, struct error *error)
{
    struct priced subject = { 0 };
    uint64_t steps;
    const bool good = subject_load(&given->subject, &subject, error)
                   && schedule_unit_steps(subject.schedule, &steps, error);
    if (good) {
        shown_add(text, "%s: %llu steps", subject.schedule->name, (unsigned long long)steps);
        text_add(text, "\n");
    }
    priced_clear(&subject);
    return good;
}

static int run(int count, char **arguments)
{
    struct simulate_arguments given = { .format = FORMAT_TEXT };
    struct error error = { 0 };
    struct text text = { 0 };
    command_parse(&argp, count, arguments, &given);
    const bool is_document = given.format != FORMAT_TEXT || given.subject.shared.json || given.picture.width;
    if (given.unit_steps ? count_steps(&given, &text, &error) : simulate(&given, &text, &error))
        return (is_document ? command_write : command_print)(&text, given.subject.shared.output, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_simulate = { "simulate", "what a plan or schedule takes: time, bubbles, bytes, a chart",
                                          run };
