// weir schedule search: the best order for stages that cost what they cost, and how
// far from the best possible it is.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/subject.h"
#include "common/number.h"
#include "schedules/order_search.h"

enum { KEY_COST_OR_FILE = KEY_OWN, KEY_PLACEMENT, KEY_OBJECTIVE, KEY_BUDGET, KEY_LATENCY };

struct given {
    bool has_name;
    const char *cost_file;  // a schedule document whose costs are taken
    enum order_placement placement;
    enum order_objective objective;
    uint64_t budget;
    struct subject_options subject;  // its FILE is not used
};

static const struct argp_option options[] = {
    OPTION_RANKS,
    OPTION_MICRO_BATCHES,
    { "cost", KEY_COST_OR_FILE, "F,I,W,C or FILE", 0,
      "What every stage costs: forward, backward for the input, for the weights, and a message's latency; times with "
      "units. Or a schedule document with a row of costs per stage", 0 },
    { "latency", KEY_LATENCY, "C", 0, "What a message takes, where FILE says what stages cost", 0 },
    { "keep", KEY_KEEP, "A,B", 0, "Bytes that a stage keeps of a micro-batch after F, and after I; with units", 0 },
    { "memory", KEY_MEMORY, "SIZE", 0, "What each rank has for what is kept, fixed bytes and workspace; without it, all it takes", 0 },
    { "placement", KEY_PLACEMENT, "P", 0, "one-way (the default), v, wave", 0 },
    OPTION_CHUNKS,
    { "objective", KEY_OBJECTIVE, "O", 0,
      "span (the default): a rank's own first start to last end, where iterations need not wait for each other; or "
      "makespan, where they do", 0 },
    { "budget", KEY_BUDGET, "N", 0, "Units of work, about an action put into its place each (4000000)", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

// --- arguments ------------------------------------------------------------------

static uint32_t find_name(const char *const *names, const char *name, const char *option, struct argp_state *state)
{
    struct text known = { 0 };
    for (uint32_t i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) {
            text_clear(&known);
            return i;
        }
        text_add(&known, "%s%s", i ? ", " : "", names[i]);
    }
    argp_error(state, "%s: \"%s\" is none of %s", option, name, known.data ? known.data : "");
    text_clear(&known);
    return 0;
}

static void check_given(const struct given *given, struct argp_state *state)
{
    const struct shared_options *shared = &given->subject.shared;
    if (!shared->ranks || !shared->micro_batches)
        argp_error(state, "--ranks and --micro-batches are needed");
    if (!given->cost_file && !given->subject.has_cost)
        argp_error(state, "--cost is needed: F,I,W,C or a document with costs");
    if (shared->memory_bytes && !given->subject.has_keep && !given->cost_file)
        argp_error(state, "--memory says nothing without --keep A,B: what stages keep of a micro-batch");
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_COST_OR_FILE:
        if (strchr(argument, ','))
            return subject_option(KEY_COST, argument, &given->subject, state);
        given->cost_file = argument;
        break;
    case KEY_LATENCY: {
        struct error error = { 0 };
        if (!time_parse(argument, &given->subject.cost_ns[3], &error))
            argp_error(state, "--latency: %s", error.text);
        break;
    }
    case KEY_PLACEMENT:
        given->placement = find_name(order_placement_names, argument, "--placement", state);
        break;
    case KEY_OBJECTIVE:
        given->objective = find_name(order_objective_names, argument, "--objective", state);
        break;
    case KEY_BUDGET:
        given->budget = option_count(argument, "--budget", 1, UINT64_MAX / 2, state);
        break;
    case ARGP_KEY_ARG:  // "search" itself
        if (given->has_name)
            argp_error(state, "one schedule, not also \"%s\"", argument);
        given->has_name = true;
        break;
    case ARGP_KEY_END:
        check_given(given, state);
        break;
    default:
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "search",
    .doc = "Searches the order in which each rank does its F, I and W, for what each stage costs and the bytes that each "
           "rank has. Prints the best order found, a bound that no order beats, and the gap between them.\v"
           "Bytes: kept_forward_bytes from F to the end of I, kept_weight_bytes from there to the end of W, fixed_bytes "
           "and the largest transient_bytes; buffers of messages are not counted.\n\nExample:\n"
           "  weir schedule search --ranks 8 --micro-batches 24 --cost 18522us,18086us,9337us,601us \\\n"
           "      --keep 192MiB,70MiB --memory 1536MiB\n",
};

// --- what is searched -------------------------------------------------------------

static struct cost_row *costs_of_document(const char *path, uint32_t stages, struct error *error)
{
    struct schedule *document = schedule_load(path, error);
    struct cost_row *costs = document ? calloc(stages, sizeof *costs) : NULL;
    if (document && !costs)
        error_no_memory(error, "costs");
    else if (document && (!document->costs || document->stages != stages)) {
        error_set(error, "%s: has %u rows of costs, and %u stages are asked for", path,
                  document->costs ? document->stages : 0, stages);
        free(costs);
        costs = NULL;
    } else if (document)
        memcpy(costs, document->costs, stages * sizeof *costs);
    schedule_free(document);
    return costs;
}

static struct cost_row *costs_alike(const struct subject_options *subject, uint32_t stages, struct error *error)
{
    struct cost_row *costs = calloc(stages, sizeof *costs);
    if (!costs)
        error_no_memory(error, "costs");
    for (uint32_t stage = 0; costs && stage < stages; stage++)
        costs[stage] = (struct cost_row){
            .forward_ns = subject->cost_ns[0], .backward_input_ns = subject->cost_ns[1],
            .backward_weight_ns = subject->cost_ns[2],
            .backward_ns = add_clamped(subject->cost_ns[1], subject->cost_ns[2]),
            .kept_forward_bytes = subject->keep_bytes[0], .kept_weight_bytes = subject->keep_bytes[1],
        };
    return costs;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static struct order_request request_of(const struct given *given)
{
    const struct shared_options *shared = &given->subject.shared;
    const uint32_t usual = given->placement == PLACEMENT_ONE_WAY ? 1 : given->placement == PLACEMENT_V ? 2 : 4;
    return (struct order_request){
        .ranks = (uint32_t)shared->ranks,
        .micro_batches = (uint32_t)shared->micro_batches,
        .chunks = shared->chunks ? (uint32_t)shared->chunks : usual,
        .placement = given->placement,
        .latency_ns = given->subject.cost_ns[3],
        .memory_bytes = shared->memory_bytes,
        .objective = given->objective,
        .budget = given->budget,
        .interrupted = &interrupted,
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

static void write_summary(const struct order_request *request, const struct order_found *found, struct text *text)
{
    char time[NUMBER_SIZE], bound[NUMBER_SIZE], memory[NUMBER_SIZE];
    text_add(text, "search: %u ranks, %u stages, %u micro-batches, placement %s, ", request->ranks,
             request->ranks * request->chunks, request->micro_batches, order_placement_names[request->placement]);
    if (request->memory_bytes)
        text_add(text, "%s per rank\n", bytes_format(request->memory_bytes, memory));
    else
        text_add(text, "memory without limit\n");
    text_add(text, "%-14s %s (%llu ns), found by %s\n", order_objective_names[request->objective],
             time_format(found->time_ns, time), (unsigned long long)found->time_ns, found->method);
    text_add(text, "bound          %s (%llu ns): no order takes less\n", time_format(found->bound_ns, bound),
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

static int print(const struct given *given, const struct order_request *request, const struct order_found *found)
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
    write_summary(request, found, &table);
    write_rows(found->schedule, &table);
    return command_write(&table, NULL, 0);
}

int command_run_search(int count, char **arguments)
{
    struct given given = { .has_name = false };
    command_parse(&argp, count, arguments, &given);
    const struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };  // a second one kills
    sigaction(SIGINT, &action, NULL);

    struct error error = { 0 };
    struct order_found found;
    struct order_request request = request_of(&given);
    const uint32_t stages = request.ranks * request.chunks;
    struct cost_row *costs = given.cost_file ? costs_of_document(given.cost_file, stages, &error)
                                             : costs_alike(&given.subject, stages, &error);
    request.costs = costs;
    int code;
    if (costs && order_search(&request, &found, &error)) {
        code = print(&given, &request, &found);
        order_found_clear(&found);
    } else {
        code = command_fail(&error);
    }
    free(costs);
    return code;
}
