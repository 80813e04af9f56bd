// weir schedule NAME: generates a schedule, or reads one from a file, and writes it in some format.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/pictures.h"
#include "cli/sending.h"
#include "cli/subject.h"
#include "schedules/csv.h"
#include "schedules/generators/generate.h"
#include "schedules/host_moves.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

enum { KEY_FORMAT = KEY_OWN, KEY_DIALECT, KEY_LOWERED, KEY_LF, KEY_SPLITS, KEY_REPLICAS, KEY_MOVES };
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };
static const char *const format_names[] = { "text", "json", "csv", NULL };

struct schedule_arguments {
    const char *name;  // or a file
    enum format format;
    bool lowered, moves;
    struct sending_options sending;
    struct subject_options from;  // costs of a file's stages
    uint32_t splits;
    uint32_t *replicas;  // per stage, or NULL
    uint32_t stages;
    struct csv_style style;
    struct picture_options picture;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_RANKS,
    OPTION_MICRO_BATCHES,
    { "chunks", KEY_CHUNKS, "V", 0, "Stages per rank (the schedule's own number)", 0 },
    { "splits", KEY_SPLITS, "K", 0, "In how many parts each sequence goes through the stages (seq1f1b)", 0 },
    { "replicas", KEY_REPLICAS, "R,R,...", 0, "Ranks of each stage, such as 3,1 (1f1b, gpipe, pipedream, forward-only)",
      0 },
    OPTION_SEGMENTS,
    OPTION_OUTPUT,
    { "format", KEY_FORMAT, "F", 0,
      "text (a row per rank; the default), json (the document) or csv (PyTorch's file)", 0 },
    { "moves", KEY_MOVES, 0, 0, "Send what is kept for backwards to the host and fetch it back: EVICT and PREFETCH",
      0 },
    { "lowered", KEY_LOWERED, 0, 0, "With the SENDs and RECVs between ranks", 0 },
    OPTION_LOWER,
    OPTION_COST,
    OPTION_CLUSTER,
    { "dialect", KEY_DIALECT, "TORCH", 0, "Which PyTorch is to read the csv: torch2.6 or torch2.9 (the default)", 0 },
    { "lf", KEY_LF, 0, 0, "End the lines of the csv in LF rather than CR LF", 0 },
    CHART_OPTIONS("Columns of the text chart (else the terminal's or 110)"),
    { 0 },
};

// Each rank holds one stage, so the replicas give the number of ranks.
static void count_ranks(struct schedule_arguments *given)
{
    if (given->shared.ranks)
        return;
    for (uint32_t stage = 0; stage < given->stages; stage++)
        given->shared.ranks += given->replicas[stage];
}

static bool is_file(const char *name)
{
    return strcmp(name, "-") == 0 || strpbrk(name, "./");
}

static void check_given(struct schedule_arguments *given, struct argp_state *state)
{
    if (given->sending.lower == LOWER_ALL)
        argp_error(state, "--lower all is for weir check");
    const struct shared_options *shared = &given->shared;
    count_ranks(given);
    if (given->name && is_file(given->name)) {
        if (shared->ranks || shared->micro_batches || shared->chunks || given->splits || given->replicas)
            argp_error(state, "%s: is a file, which says itself how many ranks and micro-batches it has", given->name);
        return;
    }
    if (given->from.cost || given->from.shared.cluster)
        argp_error(state, "--cost and --cluster say what a file's stages take: give them with a file");
    struct error error = { 0 };
    if (given->name && !generator_find(given->name, &error))
        argp_error(state, "%s; a file's name has a \".\" or a \"/\"", error.text);
    if (!given->name || !shared->ranks || !shared->micro_batches)
        argp_error(state, "a schedule's name, --ranks and --micro-batches are needed, or a file");
}

static const struct option_field fields[] = {
    { KEY_FORMAT, OPTION_FIELD(struct schedule_arguments, format), .names = format_names },
    { KEY_DIALECT, OPTION_FIELD(struct schedule_arguments, style.dialect), .names = csv_dialect_names },
    { KEY_LOWERED, OPTION_FIELD(struct schedule_arguments, lowered) },
    { KEY_MOVES, OPTION_FIELD(struct schedule_arguments, moves) },
    { KEY_SPLITS, OPTION_FIELD(struct schedule_arguments, splits), .least = 1, .most = MOST_SPLITS },
    { KEY_LF, OPTION_FIELD(struct schedule_arguments, style.line_feeds) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct schedule_arguments, name), .what = "schedule" },
    { 0 },
};

static error_t parse_schedule_option(int key, char *argument, struct argp_state *state)
{
    struct schedule_arguments *given = state->input;
    switch (key) {
    case KEY_REPLICAS:
        given->stages =
            (uint32_t)option_all_counts(argument, "--replicas", 1, ASKED_MOST_RANKS, &given->replicas, state);
        break;
    case ARGP_KEY_END:
        check_given(given, state);
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        if (picture_option(key, argument, &given->picture, state) != ARGP_ERR_UNKNOWN)
            return 0;
        if (key == KEY_LOWER)
            return sending_option(key, argument, &given->sending, state);
        if (key == KEY_COST || key == KEY_CLUSTER || key == KEY_SEGMENTS)
            return subject_option(key, argument, &given->from, state);
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

// The generators, one per line, at the end of the help text.
static char *list_generators(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    struct text list = { 0 };
    text_add(&list, "Schedules:\n");
    int width = 0;
    for (const struct generator *generator = generators; generator->name; generator++)
        width = (int)strlen(generator->name) > width ? (int)strlen(generator->name) : width;
    for (const struct generator *generator = generators; generator->name; generator++)
        text_add(&list, "  %-*s %s\n", width, generator->name, generator->about);
    text_add(&list, "  %-*s %s\n", width, "search", "the best order for given costs: weir schedule search --help");
    text_add(&list, "\nExamples:\n"
                    "  weir schedule 1f1b --ranks 4 --micro-batches 8\n"
                    "  weir schedule seq1f1b --ranks 4 --micro-batches 8 --splits 2\n"
                    "  weir schedule pipedream --replicas 2,1 --micro-batches 6\n"
                    "  weir schedule dualpipev --ranks 2 --micro-batches 8 --segments 3\n"
                    "  weir schedule mine.json --format csv --dialect torch2.6 -o mine.csv\n"
                    "  weir schedule mine.csv --cost 10us,12us,8us,1us --lower timed --format csv \\\n"
                    "      -o timed.csv\n");
    return command_help(&list);
}

static const struct argp argp = {
    .options = options,
    .parser = parse_schedule_option,
    .args_doc = "NAME\nFILE",
    .doc = "Generates a schedule: what each rank does, in which order. Or takes it from a file, in any form that weir "
           "check takes.\v-",
    .help_filter = list_generators,
};

static void write_rows(const struct schedule *schedule, struct text *text)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action *group = schedule->lists[rank].at, *end = list_end(&schedule->lists[rank]);
        text_add(text, "rank %-3u", rank);
        for (size_t size; group < end; group += size) {
            size = group_size(group, end);
            text_add(text, " ");
            group_write(group, size, text);
        }
        text_add(text, "\n");
    }
}

// Draws the order alone, with well-known costs, if at least a column is left for each unit of time.
static bool draw_chart(const struct schedule_arguments *given, const struct schedule *schedule, struct text *text,
                       struct error *error)
{
    enum { MOST_UNITS = 150, UNIT_COLUMNS = 3, CHART_COLUMNS = 100, LABEL_COLUMNS = 9 };
    struct cost_row *costs = calloc(schedule->stages, sizeof *costs);
    struct simulation simulation;
    struct timeline timeline = { 0 };
    if (!costs)
        return error_no_memory(error, "a chart");
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = schedule->splits, .backward_ns = 2 * schedule->splits,
                                          .backward_input_ns = schedule->splits,
                                          .backward_weight_ns = schedule->splits };
    const bool good = schedule_simulate(schedule, costs, NULL, &simulation, &timeline, error);
    if (good && simulation.iteration_ns <= MOST_UNITS) {
        const size_t label = schedule->ranks > 100 ? LABEL_COLUMNS
                           : schedule->ranks > 10  ? LABEL_COLUMNS - 1 : LABEL_COLUMNS - 2;
        struct text_chart chart = picture_chart(&given->picture, given->shared.output);
        const size_t room = chart.width > label ? chart.width - label : 1;
        uint64_t columns = (room < CHART_COLUMNS ? room : CHART_COLUMNS) / simulation.iteration_ns;
        columns = columns < 1 ? 1 : columns > UNIT_COLUMNS ? UNIT_COLUMNS : columns;
        text_add(text, "\nIf F, I and W%s took 1 each, and B 2 (makespan bubble %.1f %%):\n\n",
                 schedule->splits > 1 ? " of a split" : "", 100 * simulation.bubble.makespan);
        timeline.unit_ns = 1;
        if (!given->picture.width)
            chart.width = label + columns * simulation.iteration_ns;
        timeline_draw_text(&timeline, &chart, text);
    }
    if (good)
        simulation_clear(&simulation);
    timeline_clear(&timeline);
    free(costs);
    return good;
}

static bool write_csv(const struct schedule_arguments *given, const struct schedule *schedule, struct text *text,
                      struct error *error)
{
    struct csv_left_out left_out;
    if (!csv_write(schedule, &given->style, text, &left_out, error))
        return false;
    if (left_out.steps || left_out.reductions || left_out.validations)
        command_say("left out, since PyTorch's CSV has no cells for them: %zu STEP, %zu REDUCE, %zu VALIDATE",
                    left_out.steps, left_out.reductions, left_out.validations);
    if (left_out.moves)
        command_say("left out likewise: %zu EVICT and PREFETCH", left_out.moves);
    return true;
}

// Lowers the schedule if this is requested. A schedule that has messages keeps them, unless --lower says where
// receives are.
static bool lower_if_asked(const struct schedule_arguments *given, struct priced *subject, struct error *error)
{
    if (given->sending.lower == LOWER_TIMED && !subject_wants_costs(&given->from, subject, error))
        return false;
    if (!sending_lower(&given->sending, subject, error))
        return false;
    if (subject->schedule->lowered || (!given->lowered && !given->sending.lower))
        return true;
    struct schedule *order = subject->schedule;
    subject->schedule = schedule_lower(order, error);
    schedule_free(order);
    return subject->schedule != NULL;
}

static bool write_schedule(const struct schedule_arguments *given, const struct schedule *schedule, struct text *text,
                           struct error *error)
{
    switch (given->format) {
    case FORMAT_JSON:
        schedule_write(schedule, text);
        return true;
    case FORMAT_CSV:
        return write_csv(given, schedule, text, error);
    case FORMAT_TEXT:
        break;
    }
    write_rows(schedule, text);
    return draw_chart(given, schedule, text, error);
}

static bool load_schedule(struct schedule_arguments *given, struct priced *subject, struct error *error)
{
    given->from.file = given->name;
    if (is_file(given->name))
        return subject_load(&given->from, subject, error);
    const struct generate_request request = { .ranks = (uint32_t)given->shared.ranks,
                                              .micro_batches = (uint32_t)given->shared.micro_batches,
                                              .chunks = (uint32_t)given->shared.chunks, .splits = given->splits,
                                              .replicas = given->replicas, .stages = given->stages,
                                              .into = given->from.into };
    subject->schedule = schedule_generate_as(given->name, &request, error);
    return subject->schedule != NULL;
}

static bool take_schedule(struct schedule_arguments *given, struct priced *subject, struct error *error)
{
    if (!load_schedule(given, subject, error))
        return false;
    if (!given->moves)
        return true;
    if (subject->schedule->moves)
        return error_named(error, "%s: has EVICTs and PREFETCHes already; leave --moves out", given->name);
    if (subject->schedule->lowered)
        return error_named(error, "%s: has SENDs and RECVs already; --moves wants an order without", given->name);
    return schedule_add_moves(subject->schedule, error);
}

static int run(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "search") == 0)
            return command_run_search(count, arguments);
    }
    struct schedule_arguments given = { .style.dialect = CSV_TORCH_2_9, .from.is_order = true };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct priced subject = { 0 };
    struct text text = { 0 };
    const bool good = take_schedule(&given, &subject, &error) && lower_if_asked(&given, &subject, &error)
                   && write_schedule(&given, subject.schedule, &text, &error);
    free(given.replicas);
    priced_clear(&subject);
    const bool is_document = given.format != FORMAT_TEXT || given.picture.width;
    if (good)
        return (is_document ? command_write : command_print)(&text, given.shared.output, 0);
    text_clear(&text);
    const char *cost = given.from.cost;
    if (is_file(given.name))
        command_name_files(&error, given.name, cost && !strchr(cost, ',') ? cost : NULL);
    return command_fail(&error);
}

const struct command command_schedule = { "schedule", "generate a schedule by name, or write one in another form",
                                          run };
