// weir simulate FILE: what a schedule, or a plan, takes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/predict.h"
#include "schedules/simulate.h"

enum { KEY_COST = KEY_OWN, KEY_KEEP, KEY_FORMAT, KEY_ASCII };
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SVG, FORMAT_TRACE };
enum { CHART_COLUMNS = 110 };

static const char *const format_names[] = { "text", "json", "svg", "trace", NULL };

struct given {
    const char *file;
    bool has_cost, has_keep, ascii;
    uint64_t cost_ns[4];     // F, I, W, C
    uint64_t keep_bytes[2];  // after F, after I
    enum format format;
    struct shared_options shared;
};

// What is simulated: a schedule with costs, and the links between its ranks (or NULL).
struct subject {
    struct schedule *schedule;
    struct network *network;
    uint64_t steady_ns;        // of an asynchronous plan: an iteration once it is under way
    uint64_t stated_ns;        // of a plan simulated as it stands: the iteration it predicts
    uint64_t *capacity_bytes;  // of a plan: the memory of each rank's device
};

static const struct argp_option options[] = {
    { "cost", KEY_COST, "F,I,W,C", 0,
      "What every stage costs: forward, backward for the input, for the weights (B is both), and a message's latency; "
      "times with units", 0 },
    { "keep", KEY_KEEP, "A,B", 0, "Bytes that a stage keeps of a micro-batch after F, and after I; with units", 0 },
    OPTION_CLUSTER,
    OPTION_MICRO_BATCHES,
    OPTION_SCHEDULE,
    { "format", KEY_FORMAT, "FORMAT", 0, "text (the default), json, svg, trace (Chrome trace events)", 0 },
    { "ascii", KEY_ASCII, 0, 0, "Draw the text chart without box characters", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

// --- arguments ------------------------------------------------------------------

// Takes `count` quantities apart at their commas.
static void take_list(const char *argument, const char *name, size_t count, uint64_t *values,
                      bool (*parse)(const char *text, uint64_t *value, struct error *error), struct argp_state *state)
{
    char copy[256];
    size_t found = 0;
    snprintf(copy, sizeof copy, "%s", argument);
    if (strlen(argument) >= sizeof copy)
        argp_error(state, "%s: is longer than %zu letters", name, sizeof copy - 1);
    for (char *at = copy; at; found++) {
        struct error error = { 0 };
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (found < count && !parse(at, &values[found], &error))
            argp_error(state, "%s: %s", name, error.text);
        at = comma;
    }
    if (found != count)
        argp_error(state, "%s: takes %zu quantities, not %zu", name, count, found);
}

static enum format find_format(const char *name, struct argp_state *state)
{
    for (size_t i = 0; format_names[i]; i++) {
        if (strcmp(format_names[i], name) == 0)
            return (enum format)i;
    }
    argp_error(state, "--format: \"%s\" is none of text, json, svg, trace", name);
    return FORMAT_TEXT;
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_COST:
        given->has_cost = true;
        take_list(argument, "--cost", 4, given->cost_ns, time_parse, state);
        break;
    case KEY_KEEP:
        given->has_keep = true;
        take_list(argument, "--keep", 2, given->keep_bytes, bytes_parse, state);
        break;
    case KEY_FORMAT:
        given->format = find_format(argument, state);
        break;
    case KEY_ASCII:
        given->ascii = true;
        break;
    case KEY_JSON:
        given->format = FORMAT_JSON;
        break;
    case ARGP_KEY_ARG:
        if (given->file)
            argp_error(state, "one plan or schedule, not also \"%s\"", argument);
        given->file = argument;
        break;
    case ARGP_KEY_END:
        if (!given->file)
            argp_error(state, "a plan's or a schedule's file is needed");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "FILE",
    .doc = "Says what a plan or a schedule takes: time, the four bubbles, bytes per rank. "
           "FILE may be \"-\", standard input.\v"
           "A schedule needs costs: its own, or --cost. Messages cost what --cost or --cluster says (rank r on device "
           "r); in a plan, what its own cluster says. "
           "--micro-batches and --schedule change those of a plan, whose cuts and recomputation stay.\n\nExample:\n"
           "  weir schedule 1f1b --ranks 8 --micro-batches 24 --format json > 1f1b.json\n"
           "  weir simulate 1f1b.json --cost 18522us,18086us,9337us,601us\n",
};

// --- what is simulated -------------------------------------------------------------

static bool set_costs(const struct given *given, struct schedule *schedule, struct error *error)
{
    if (!given->has_cost && !given->has_keep)
        return true;
    if (!schedule->costs)
        schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    if (!schedule->costs)
        return error_no_memory(error, "the costs of a schedule");
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        struct cost_row *row = &schedule->costs[stage];
        if (given->has_cost) {
            row->forward_ns = given->cost_ns[0];
            row->backward_input_ns = given->cost_ns[1];
            row->backward_weight_ns = given->cost_ns[2];
            row->backward_ns = add_clamped(given->cost_ns[1], given->cost_ns[2]);
        }
        if (given->has_keep) {
            row->kept_forward_bytes = given->keep_bytes[0];
            row->kept_weight_bytes = given->keep_bytes[1];
        }
    }
    return true;
}

static struct network *network_of_cluster(const char *name, uint32_t ranks, struct error *error)
{
    struct cluster *cluster = cluster_load(name, error);
    struct network *network = NULL;
    uint32_t *devices = calloc(ranks, sizeof *devices);
    for (uint32_t rank = 0; devices && rank < ranks; rank++)
        devices[rank] = rank;
    if (cluster && !devices)
        error_no_memory(error, "the links of a cluster");
    else if (cluster && cluster->device_count < ranks)
        error_set(error, "the cluster has %zu devices, and the schedule %u ranks", cluster->device_count, ranks);
    else if (cluster)
        network = cluster_network(cluster, devices, ranks, error);
    free(devices);
    cluster_free(cluster);
    return network;
}

static bool read_schedule(const struct given *given, const char *text, size_t length, struct subject *subject,
                          struct error *error)
{
    subject->schedule = schedule_read(text, length, given->file, error);
    if (!subject->schedule || !set_costs(given, subject->schedule, error))
        return false;
    if (!subject->schedule->costs)
        return error_set(error, "%s: has no costs: give --cost F,I,W,C", given->file);
    if (given->shared.cluster)
        subject->network = network_of_cluster(given->shared.cluster, subject->schedule->ranks, error);
    else if (given->has_cost)
        subject->network =
            network_uniform(subject->schedule->ranks, (struct link){ .latency_ns = given->cost_ns[3] }, error);
    return subject->network || (!given->shared.cluster && !given->has_cost);
}

static bool change_schedule(struct plan *plan, const char *name, struct error *error)
{
    const struct generator *generator = generator_find(name, error);
    if (!generator)
        return false;
    snprintf(plan->schedule, sizeof plan->schedule, "%s", name);
    plan->weights = generator->weights;
    return true;
}

static bool note_capacities(const struct plan *plan, struct subject *subject, struct error *error)
{
    subject->capacity_bytes = calloc(plan->ranks, sizeof subject->capacity_bytes[0]);
    if (!subject->capacity_bytes)
        return error_no_memory(error, "a plan");
    for (size_t s = 0; s < plan->stage_count; s++)
        subject->capacity_bytes[s % plan->ranks] = plan->stages[s].memory.capacity_bytes;
    return true;
}

static bool read_plan(const struct given *given, const char *text, size_t length, struct subject *subject,
                      struct error *error)
{
    if (given->has_cost || given->has_keep || given->shared.cluster)
        return error_set(error, "%s: is a plan, which brings its own costs and cluster: leave --cost, --keep and "
                                "--cluster out", given->file);
    struct plan *plan = plan_read(text, length, given->file, error);
    if (!plan)
        return false;
    if (!given->shared.schedule && !given->shared.micro_batches)
        subject->stated_ns = plan->iteration_ns;
    bool good = !given->shared.schedule || change_schedule(plan, given->shared.schedule, error);
    if (given->shared.micro_batches)
        plan->micro_batches = (uint32_t)given->shared.micro_batches;
    subject->network = good ? plan_network(plan, error) : NULL;
    subject->schedule = subject->network ? plan_schedule(plan, plan->micro_batches, true, error) : NULL;
    good = subject->schedule
        && (plan->weights == WEIGHTS_FLUSH || plan_time(plan, subject->network, &subject->steady_ns, error));
    good = good && note_capacities(plan, subject, error);
    plan_free(plan);
    return good;
}

// The document says itself what it is. What is no document at all is left to the
// schedule's reader to refuse.
static bool is_plan(const char *text, size_t length)
{
    struct error ignored = { 0 };
    struct json_document *document = json_parse(text, length, "", &ignored);
    if (!document)
        return false;
    struct json root = json_root(document);
    const bool plan = strcmp(json_string(&root, "format"), "weir.plan") == 0;
    json_free(document);
    return plan;
}

static bool read_subject(const struct given *given, struct subject *subject, struct error *error)
{
    size_t length;
    char *text = text_load(given->file, &length, error);
    if (!text)
        return false;
    bool good;
    if (is_plan(text, length))
        good = read_plan(given, text, length, subject, error);
    else if (given->shared.micro_batches)
        good = error_set(error, "%s: is a schedule, whose micro-batches are its own: leave --micro-batches out",
                         given->file);
    else if (given->shared.schedule)
        good = error_set(error, "%s: is a schedule itself: leave --schedule out", given->file);
    else
        good = read_schedule(given, text, length, subject, error);
    free(text);
    return good;
}

// --- results -----------------------------------------------------------------------

static void write_table(const struct simulation *simulation, const struct subject *subject, struct text *text)
{
    char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], again[NUMBER_SIZE], peak[NUMBER_SIZE];
    text_add(text, "rank       first        last        busy   recompute   live peak  in flight\n");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        const struct rank_result *result = &simulation->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s  %10s  %9u", rank, time_format(result->first_ns, first),
                 time_format(result->last_ns, last), time_format(result->busy_ns, busy),
                 time_format(result->recompute_ns, again), bytes_format(result->live_peak_bytes, peak),
                 result->peak_in_flight);
        if (subject->capacity_bytes && result->live_peak_bytes > subject->capacity_bytes[rank])
            text_add(text, "  does not fit into %s", bytes_format(subject->capacity_bytes[rank], peak));
        text_add(text, "\n");
    }
}

static void write_summary(const struct simulation *simulation, const struct subject *subject, struct text *text)
{
    const struct schedule *schedule = subject->schedule;
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE], d[NUMBER_SIZE], e[NUMBER_SIZE];
    const struct bubble *bubble = &simulation->bubble;
    const struct critical_path *path = &simulation->critical_path;
    text_add(text, "%s: %u ranks, %u stages, %u micro-batches, weights %s\n", schedule->name, schedule->ranks,
             schedule->stages, schedule->micro_batches, weights_names[schedule->weights]);
    text_add(text, "time           %s (%llu ns); longest span of a rank %s\n", time_format(simulation->iteration_ns, a),
             (unsigned long long)simulation->iteration_ns, time_format(simulation->max_span_ns, b));
    if (subject->steady_ns)
        text_add(text, "iteration      %s (%llu ns): %u more micro-batches once the pipeline is full\n",
                 time_format(subject->steady_ns, a), (unsigned long long)subject->steady_ns, schedule->micro_batches);
    text_add(text, "bubble         makespan %.2f %%, overhead %.2f %%, span %.2f %%, zb_rate %.2f %%\n",
             100 * bubble->makespan, 100 * bubble->overhead, 100 * bubble->span, 100 * bubble->zb_rate);
    text_add(text, "critical path  computing %s, recomputing %s, latency %s, transfers %s, waiting for links %s\n\n",
             time_format(path->compute_ns, a), time_format(path->recompute_ns, b), time_format(path->latency_ns, c),
             time_format(path->transfer_ns, d), time_format(path->order_ns, e));
}

// As wide as the terminal, if there is one.
static size_t chart_columns(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return CHART_COLUMNS;
}

static void write_result(const struct given *given, const struct subject *subject,
                         const struct simulation *simulation, const struct timeline *timeline, struct text *text)
{
    const struct schedule *schedule = subject->schedule;
    char title[128];
    switch (given->format) {
    case FORMAT_TEXT:
        write_summary(simulation, subject, text);
        write_table(simulation, subject, text);
        text_add(text, "\n");
        timeline_draw_text(timeline, chart_columns(), given->ascii, text);
        break;
    case FORMAT_JSON:
        simulation_write(simulation, schedule, text);
        break;
    case FORMAT_SVG:
        snprintf(title, sizeof title, "%s, %u ranks, %u micro-batches", schedule->name, schedule->ranks,
                 schedule->micro_batches);
        timeline_draw_svg(timeline, title, text);
        break;
    case FORMAT_TRACE:
        timeline_write_trace(timeline, text);
        break;
    }
}

// A plan made by hand states nothing.
static void warn(const struct given *given, const struct subject *subject, const struct simulation *simulation)
{
    const uint64_t taken_ns = subject->steady_ns ? subject->steady_ns : simulation->iteration_ns;
    if (subject->stated_ns && subject->stated_ns != taken_ns)
        fprintf(stderr, "weir: %s: predicted.iteration_ns: is %llu, but it takes %llu: the plan was changed since it was"
                        " made (weir check PLAN --profile PROFILE says where)\n", given->file, (unsigned long long)subject->stated_ns,
                (unsigned long long)taken_ns);
}

// Documents and charts hold no more.
static bool is_sensible(const struct given *given, const struct simulation *simulation, struct error *error)
{
    if (simulation->iteration_ns > JSON_MAX)
        return error_set(error, "%s: takes more than 2^53 - 1 ns, 104 days: its costs or the cluster's latency are too"
                                " high", given->file);
    for (uint32_t rank = 0; rank < simulation->ranks; rank++)
        if (simulation->per_rank[rank].live_peak_bytes > JSON_MAX)
            return error_set(error, "%s: rank %u would hold more than 2^53 - 1 bytes: what its stages keep is too much",
                             given->file, rank);
    return true;
}

static bool simulate(const struct given *given, struct text *text, struct error *error)
{
    struct subject subject = { 0 };
    struct simulation simulation = { 0 };
    struct timeline timeline = { 0 };
    const bool good = read_subject(given, &subject, error)
                   && schedule_simulate(subject.schedule, NULL, subject.network, &simulation,
                                        given->format == FORMAT_JSON ? NULL : &timeline, error)
                   && is_sensible(given, &simulation, error);
    if (good)
        warn(given, &subject, &simulation);
    if (good)
        write_result(given, &subject, &simulation, &timeline, text);
    simulation_clear(&simulation);
    timeline_clear(&timeline);
    free(subject.capacity_bytes);
    network_free(subject.network);
    schedule_free(subject.schedule);
    return good;
}

static int run(int count, char **arguments)
{
    struct given given = { .file = NULL };
    struct error error = { 0 };
    struct text text = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (simulate(&given, &text, &error))
        return command_write(&text, given.shared.output, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_simulate = { "simulate", "what a plan or schedule takes: time, bubbles, bytes, a chart", run };
