#include "cli/traces.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "cli/command.h"
#include "common/number.h"

static int64_t take_iteration(const char *argument, struct argp_state *state)
{
    if (strcmp(argument, "last") == 0)
        return TRACE_LAST;
    if (strcmp(argument, "all") == 0)
        return TRACE_ALL;
    return (int64_t)option_count(argument, "--iteration", 0, 1u << 30, state);
}

static void take_file(const char *file, struct trace_options *options, struct argp_state *state)
{
    if (options->count == MOST_TRACES)
        argp_error(state, "--trace: more than %d files", MOST_TRACES);
    options->files[options->count++] = file;
}

error_t trace_option(int key, char *argument, struct trace_options *options, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->count == 0)
            return ARGP_ERR_UNKNOWN;
        take_file(argument, options, state);  // what the shell makes of --trace rank*.json
        break;
    case KEY_TRACE:
        take_file(argument, options, state);
        break;
    case KEY_ITERATION:
        options->iteration = take_iteration(argument, state);
        options->has_iteration = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// --- reading ------------------------------------------------------------------------

static bool read_all(const struct trace_options *options, struct exhibit *exhibit, struct error *error)
{
    struct trace_reader *reader = trace_reader_create(error);
    bool good = reader != NULL;
    for (size_t i = 0; good && i < options->count; i++)
        good = trace_reader_load(reader, options->files[i], error);
    good = good && trace_reader_finish(reader, options->has_iteration ? options->iteration : TRACE_LAST,
                                       &exhibit->timeline, &exhibit->trace, error);
    trace_reader_free(reader);
    return good;
}

static void add_count(uint64_t count, const char *what, struct text *text)
{
    if (count > 0)
        text_add(text, "%s%llu %s", text->length ? ", " : "", (unsigned long long)count, what);
}

// One line on what was left out, and one on each thing that may surprise.
static bool say(const struct exhibit *exhibit, struct error *error)
{
    const struct trace_summary *trace = &exhibit->trace;
    struct text left_out = { 0 };
    char time[NUMBER_SIZE];
    add_count(trace->left_out, "events that are no actions", &left_out);
    add_count(trace->messages, "sends and receives", &left_out);
    add_count(trace->doubled, "times of the host where the GPU's are there", &left_out);
    const bool good = text_ok(&left_out, exhibit->file, error);
    if (good && left_out.length > 0)
        command_say("%s: left out: %s", exhibit->file, left_out.data);
    text_clear(&left_out);
    if (trace->waits > 0)
        command_say("%s: waiting for messages within %llu actions is taken off them: %s in all", exhibit->file,
                    (unsigned long long)trace->waits, time_format(trace->waited_ns, time));
    if (trace->uneven)
        command_say("%s: some actions come more often than others: it begins or ends within an iteration",
                    exhibit->file);
    if (trace->renumbered)
        command_say("%s: some ranks are missing: those there are have been numbered from 0", exhibit->file);
    return good;
}

bool traces_load(const struct trace_options *options, struct exhibit *exhibit, struct error *error)
{
    *exhibit = (struct exhibit){ .file = options->files[0], .measured = true };
    if (!read_all(options, exhibit, error) || !timeline_measure(&exhibit->timeline, &exhibit->simulation, error)
        || !exhibit_is_sensible(exhibit, error))
        return false;
    snprintf(exhibit->name, sizeof exhibit->name, "measured, %u ranks, %u micro-batches", exhibit->timeline.ranks,
             exhibit->trace.micro_batches);
    exhibit->all_iterations = options->has_iteration && options->iteration == TRACE_ALL;
    return say(exhibit, error);
}

bool trace_is_likely(const char *file)
{
    char begin[4096];
    gzFile source = strcmp(file, "-") == 0 ? NULL : gzopen(file, "rb");
    if (!source)
        return false;
    const int length = gzread(source, begin, sizeof begin - 1);
    const bool packed = !gzdirect(source);
    gzclose(source);
    if (length <= 0)
        return packed;
    begin[length] = '\0';
    const char first = begin[strspn(begin, " \t\r\n")];
    return packed || first == '[' || (first == '{' && !strstr(begin, "\"weir."));
}

// --- results ------------------------------------------------------------------------

static void write_table(const struct simulation *simulation, struct text *text)
{
    text_add(text, "rank       first        last        busy   recompute  in flight\n");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], again[NUMBER_SIZE];
        const struct rank_result *result = &simulation->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s  %9u\n", rank, time_format(result->first_ns, first),
                 time_format(result->last_ns, last), time_format(result->busy_ns, busy),
                 time_format(result->recompute_ns, again), result->peak_in_flight);
    }
}

void traces_write(const struct exhibit *exhibit, struct text *text)
{
    const struct simulation *simulation = &exhibit->simulation;
    const struct critical_path *path = &simulation->critical_path;
    const struct bubble *bubble = &simulation->bubble;
    const struct trace_summary *trace = &exhibit->trace;
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE];
    text_add(text, "measured: ");
    schedule_write_shape(simulation->ranks, trace->stages, trace->micro_batches, text);
    text_add(text, ", ");
    if (exhibit->all_iterations)
        text_add(text, "all %u iterations\n", trace->iterations);
    else
        text_add(text, "iteration %u of 0 to %u\n", trace->iteration, trace->iterations - 1);
    text_add(text, "time           %s (%llu ns); longest span of a rank %s\n", time_format(simulation->iteration_ns, a),
             (unsigned long long)simulation->iteration_ns, time_format(simulation->max_span_ns, b));
    text_add(text, "bubble         makespan %.2f %%, overhead %.2f %%, span %.2f %%, zb_rate %.2f %%\n",
             100 * bubble->makespan, 100 * bubble->overhead, 100 * bubble->span, 100 * bubble->zb_rate);
    text_add(text, "critical path  computing %s, recomputing %s, waiting between actions %s\n\n",
             time_format(path->compute_ns, a), time_format(path->recompute_ns, b),
             time_format(path->transfer_ns + path->order_ns, c));
    write_table(simulation, text);
    text_add(text, "\n");
}
