// weir schedule search: the best order for stages with given costs, and its optimality gap.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/subject.h"
#include "common/number.h"
#include "common/progress.h"
#include "schedules/search/order_search.h"

enum { KEY_PLACEMENT = KEY_OWN, KEY_OBJECTIVE, KEY_BUDGET, KEY_LATENCY };

struct search_arguments {
    bool has_name;
    bool has_latency;
    uint64_t latency_ns;  // overrides the costs
    uint64_t unit_ns;     // what 1 is (costs.h)
    enum order_placement placement;
    enum order_objective objective;
    uint64_t budget;
    struct subject_options subject;  // its FILE is not used
};

static const struct argp_option options[] = {
    OPTION_RANKS,
    OPTION_MICRO_BATCHES,
    OPTION_COST,
    { "latency", KEY_LATENCY, "C", 0, "What a message takes, where FILE says what stages cost", 0 },
    OPTION_KEEP,
    { "memory", KEY_MEMORY, "SIZE", 0,
      "What each rank has for what is kept, fixed bytes and workspace; without it, all it takes", 0 },
    { "placement", KEY_PLACEMENT, "P", 0, "one-way (the default), v, wave", 0 },
    OPTION_CHUNKS,
    { "objective", KEY_OBJECTIVE, "O", 0,
      "span (the default): a rank's own first start to last end, where iterations need not wait for each other; or "
      "makespan, where they do", 0 },
    { "budget", KEY_BUDGET, "N", 0, "Units of work; to time an action of an order is one (2000000)", 0 },
    OPTION_RESULT,
    { 0 },
};

// --- arguments ------------------------------------------------------------------

static void check_given(const struct search_arguments *given, struct argp_state *state)
{
    const struct shared_options *shared = &given->subject.shared;
    if (!shared->ranks || !shared->micro_batches)
        argp_error(state, "--ranks and --micro-batches are needed");
    if (!given->subject.cost)
        argp_error(state, "--cost is needed: F,I,W,C or a document with costs");
    if (shared->memory_bytes && !given->subject.kept.has_forward && strchr(given->subject.cost, ','))
        argp_error(state, "--memory says nothing without --keep A,B: what stages keep of a micro-batch");
}

static const struct option_field fields[] = {
    { KEY_LATENCY, OPTION_FIELD_GIVEN(struct search_arguments, latency_ns, has_latency), .parse = time_parse },
    { KEY_PLACEMENT, OPTION_FIELD(struct search_arguments, placement), .names = order_placement_names },
    { KEY_OBJECTIVE, OPTION_FIELD(struct search_arguments, objective), .names = order_objective_names },
    { KEY_BUDGET, OPTION_FIELD(struct search_arguments, budget), .least = 1, .most = UINT64_MAX / 2 },
    { 0 },
};

static error_t parse_search_option(int key, char *argument, struct argp_state *state)
{
    struct search_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_ARG:  // the word "search"
        if (given->has_name)
            argp_error(state, "one schedule, not also \"%s\"", argument);
        given->has_name = true;
        break;
    case ARGP_KEY_END:
        check_given(given, state);
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_search_option,
    .doc = "Searches the order in which each rank does its F, I and W, for what each stage costs and the bytes that"
           " each rank has. Prints the best order found, a bound that no order beats, and the gap between them. Every "
           "backward is done as I and W, also where a full B would take less than both.\v"
           "Bytes: kept_forward_bytes from F to the end of I, kept_weight_bytes from there to the end of W,"
           " fixed_bytes and the largest transient_bytes; buffers of messages are not counted.\n\nExample:\n"
           "  weir schedule search --ranks 8 --micro-batches 24 \\\n"
           "      --cost 18522us,18086us,9337us,601us --keep 192MiB,70MiB --memory 1536MiB\n",
};

// --- what is searched -------------------------------------------------------------

struct meter {
    struct progress progress;
    uint64_t work, budget;
};

static void show(void *self, uint64_t units)
{
    struct meter *meter = self;
    meter->work += units;
    progress_show(&meter->progress, "%llu of at most %llu units of work", (unsigned long long)meter->work,
                  (unsigned long long)meter->budget);
}

static uint32_t chunks_of(const struct search_arguments *given)
{
    const uint64_t chunks = given->subject.shared.chunks;
    return chunks ? (uint32_t)chunks : order_usual_chunks(given->placement);
}

static struct order_request request_of(const struct search_arguments *given, const struct costs *costs)
{
    const struct shared_options *shared = &given->subject.shared;
    return (struct order_request){
        .ranks = (uint32_t)shared->ranks,
        .micro_batches = (uint32_t)shared->micro_batches,
        .chunks = chunks_of(given),
        .placement = given->placement,
        .costs = costs->rows,
        .latency_ns = given->has_latency ? given->latency_ns : costs->latency_ns,
        .memory_bytes = shared->memory_bytes,
        .objective = given->objective,
        .budget = given->budget,
        .interrupted = command_interrupted(),
    };
}

// --- results -----------------------------------------------------------------------

static void write_gap(const struct order_found *found, struct text *text)
{
    text_add(text, "gap            %.2f %%, ", 100 * order_gap(found));
    if (found->proved)
        text_add(text, "proved: %s\n", found->exhausted ? "all that could be better was tried" : "the bound is met");
    else
        text_add(text, "%s\n", found->stopped ? found->stopped : "nothing better was found");
}

static void write_summary(const struct order_request *request, const struct order_found *found, uint64_t unit_ns,
                          struct text *text)
{
    char time[NUMBER_SIZE], bound[NUMBER_SIZE], memory[NUMBER_SIZE];
    text_add(text, "search: ");
    schedule_write_shape(request->ranks, request->ranks * request->chunks, request->micro_batches, text);
    text_add(text, ", placement %s, ", order_placement_names[request->placement]);
    if (request->memory_bytes)
        text_add(text, "%s per rank\n", bytes_format(request->memory_bytes, memory));
    else
        text_add(text, "memory without limit\n");
    text_add(text, "%-14s %s (%llu ns), found by %s\n", order_objective_names[request->objective],
             costs_format(unit_ns, found->time_ns, time), (unsigned long long)found->time_ns, found->method);
    text_add(text, "bound          %s (%llu ns): no order takes less\n", costs_format(unit_ns, found->bound_ns, bound),
             (unsigned long long)found->bound_ns);
    write_gap(found, text);
    text_add(text, "work           %llu units\n\n", (unsigned long long)found->work);
}

static void write_rows(const struct schedule *schedule, struct text *text)
{
    char token[ACTION_SIZE];
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        text_add(text, "rank %-3u", rank);
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            text_add(text, " %s", action_format(schedule->lists[rank].at[i], token));
        text_add(text, "\n");
    }
}

static int print(const struct search_arguments *given, const struct order_request *request,
                 const struct order_found *found)
{
    const char *output = given->subject.shared.output;
    struct text table = { 0 }, document = { 0 };
    schedule_write(found->schedule, &document);
    if (given->subject.shared.json || (output && strcmp(output, "-") == 0))
        return command_write(&document, output, 0);
    const int code = output ? command_write(&document, output, 0) : 0;
    text_clear(&document);
    if (code)
        return code;
    write_summary(request, found, given->unit_ns, &table);
    write_rows(found->schedule, &table);
    return command_print(&table, NULL, 0);
}

int command_run_search(int count, char **arguments)
{
    struct search_arguments given = { .has_name = false };
    char name[] = "weir schedule search";
    arguments[0] = name;
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct order_found found;
    struct costs costs;
    int code;
    if (!subject_costs(&given.subject, (uint32_t)given.subject.shared.ranks * chunks_of(&given), &costs, &error))
        return command_fail(&error);
    given.unit_ns = costs.unit_ns;
    struct order_request request = request_of(&given, &costs);
    struct meter meter = { .budget = request.budget ? request.budget : ORDER_DEFAULT_BUDGET };
    request.progress = show;
    request.self = &meter;
    const bool good = order_search(&request, &found, &error);
    progress_end(&meter.progress);
    if (good) {
        code = print(&given, &request, &found);
        order_found_clear(&found);
    } else {
        code = command_fail(&error);
    }
    costs_clear(&costs);
    return code;
}
