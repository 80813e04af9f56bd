// weir sweep PROFILE: a plan for every schedule, and which of them are worth it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/storage_options.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "partitioner/sweep/sweep.h"

enum { KEY_RANKS_LIST = KEY_RANKS, KEY_CHUNKS_LIST = KEY_CHUNKS, KEY_MICRO_BATCHES_LIST = KEY_MICRO_BATCHES };
enum { KEY_SCHEDULES = KEY_SCHEDULE, KEY_GLOBAL_BATCH = KEY_OWN, KEY_BUDGET, KEY_JOBS, KEY_CSV, KEY_PLAN, KEY_FOR,
       KEY_CONFIG };

enum { MOST_SCHEDULES = 64 };

struct sweep_arguments {
    const char *profile;
    char *names;  // of --schedules, split at its commas
    const char *schedules[MOST_SCHEDULES];
    size_t schedule_count;
    struct option_numbers ranks, chunks, micro_batches;
    uint64_t global_batch, budget, jobs;
    bool csv;
    const char *plan;
    const struct engine *engine;
    struct shared_options shared;
    struct storage_options storage;
};

static const struct argp_option options[] = {
    OPTION_CLUSTER,
    { "schedules", KEY_SCHEDULES, "LIST", 0, "Which schedules (all that train, and \"search\": the best order for the"
                                             " cuts of zb-h1 and zb-v); names with commas between", 0 },
    { "for", KEY_FOR, "ENGINE", 0, "Only what it runs: threads, processes, pytorch", 0 },
    { "micro-batches", KEY_MICRO_BATCHES_LIST, "LIST", 0, "Micro-batches per iteration (P,2P,4P,8P)", 0 },
    { "global-batch", KEY_GLOBAL_BATCH, "N", 0, "Samples per iteration, instead of micro-batches", 0 },
    { "ranks", KEY_RANKS_LIST, "LIST", 0, "Numbers of ranks (the cluster's devices)", 0 },
    { "chunks", KEY_CHUNKS_LIST, "LIST", 0, "Stages per rank (each schedule's usual number, and twice it)", 0 },
    OPTION_MEMORY,
    OPTION_OWN_ORDER,
    { "config", KEY_CONFIG, "FILE", 0, "Other options: weir sweep --config=FILE --help", 0 },
    { "budget", KEY_BUDGET, "N", 0, "Units of work each plan may take (200000)", 0 },
    { "jobs", KEY_JOBS, "N", 0, "Threads (one per core); the result is the same", 0 },
    OPTION_JSON,
    { "csv", KEY_CSV, 0, 0, "Print a line per row for other programs", 0 },
    { "plan", KEY_PLAN, "FILE", 0, "Where the plan that is suggested goes: of what can be run, the best", 0 },
    OPTION_OUTPUT,
    { 0 },
};

static const struct engine *take_engine(const char *argument, struct argp_state *state)
{
    struct error error = { 0 };
    const struct engine *engine = engine_find(argument, &error);
    if (!engine)
        argp_error(state, "--for: %s", error.text);
    return engine;
}

static const struct option_field fields[] = {
    { KEY_RANKS_LIST, OPTION_FIELD(struct sweep_arguments, ranks), .least = 1, .most = ASKED_MOST_RANKS },
    { KEY_CHUNKS_LIST, OPTION_FIELD(struct sweep_arguments, chunks), .least = 1, .most = ASKED_MOST_CHUNKS },
    { KEY_MICRO_BATCHES_LIST, OPTION_FIELD(struct sweep_arguments, micro_batches), .least = 1,
      .most = ASKED_MOST_MICRO_BATCHES },
    { KEY_GLOBAL_BATCH, OPTION_FIELD(struct sweep_arguments, global_batch), .least = 1, .most = JSON_MAX },
    { KEY_BUDGET, OPTION_FIELD(struct sweep_arguments, budget), .least = 1, .most = JSON_MAX },
    { KEY_JOBS, OPTION_FIELD(struct sweep_arguments, jobs), .least = 1, .most = MOST_JOBS },
    { KEY_CSV, OPTION_FIELD(struct sweep_arguments, csv) },
    { KEY_PLAN, OPTION_FIELD(struct sweep_arguments, plan) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct sweep_arguments, profile), .what = "profile" },
    { 0 },
};

static error_t parse_sweep_option(int key, char *argument, struct argp_state *state)
{
    struct sweep_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &given->storage;
        break;
    case KEY_SCHEDULES:
        given->schedule_count =
            option_names(argument, "schedules", &given->names, given->schedules, MOST_SCHEDULES, state);
        break;
    case KEY_FOR:
        given->engine = take_engine(argument, state);
        break;
    case KEY_CONFIG:
        argp_error(state, "--config: is written out, before a \"--\"");
        break;
    case ARGP_KEY_END:
        if (!given->profile || !given->shared.cluster)
            argp_error(state, "a profile and --cluster are needed");
        if (given->csv && given->shared.json)
            argp_error(state, "--csv or --json, not both");
        if (given->global_batch && given->micro_batches.count)
            argp_error(state, "--global-batch says how many micro-batches there are; leave --micro-batches out");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp_child children[] = { { &storage_argp, 0, "States:", 1 }, { 0 } };

static const struct argp argp = {
    .options = options,
    .parser = parse_sweep_option,
    .children = children,
    .args_doc = "PROFILE",
    .doc = "Plans a model for every schedule, number of ranks, stages per rank and micro-batches under one memory"
           " limit, and prints time against peak bytes: the best, the front, and why the others lost. Ctrl-C ends it"
           " with what is known; a second one ends it at once."
           "\vRows with other numbers of micro-batches are compared by the time per micro-batch. Rows with an x have"
           " no plan that could be run; what is suggested can be run, if anything can. Exit code 1: no plan was"
           " found.\n\nExample:\n  weir sweep profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
           "      --micro-batches 8,16,32 --plan plan.json\n",
};

static void show(void *self, size_t done, size_t all)
{
    progress_show(self, "%zu of %zu plans", done, all);
}

// Computes the number of micro-batches in the batch.
static bool divide_batch(struct sweep_arguments *given, const struct profile *profile, struct error *error)
{
    const uint64_t batch = given->global_batch, each = profile->micro_batch;
    if (!batch)
        return true;
    const uint64_t near = max_u64(min_u64(batch / each, ASKED_MOST_MICRO_BATCHES), 1);
    if (near * each != batch)
        return error_set(error, "--global-batch %llu: the profile's micro-batches have %llu samples; take a multiple of"
                         " that, such as %llu", (unsigned long long)batch, (unsigned long long)each,
                         (unsigned long long)(near * each));
    given->micro_batches = (struct option_numbers){ .at = { (uint32_t)(batch / each) }, .count = 1 };
    return true;
}

static int print(const struct sweep_arguments *given, const struct sweep *sweep)
{
    const struct sweep_row *best = sweep_best(sweep);
    const int code = best || sweep->stopped[0] ? 0 : ERROR_ANSWER;
    struct text text = { 0 };
    const struct sweep_row *with_plan = sweep_best_plan(sweep);
    if (given->plan && with_plan) {
        plan_write(with_plan->plan, &text);
        const int failed = command_write(&text, given->plan, 0);
        if (failed)
            return failed;
    }
    if (given->shared.json)
        sweep_write(sweep, &text);
    else if (given->csv)
        sweep_write_csv(sweep, &text);
    else
        sweep_print(sweep, &text);
    return (given->shared.json || given->csv ? command_write : command_print)(&text, given->shared.output, code);
}

static int sweep(struct sweep_arguments *given, const struct profile *profile, struct cluster *cluster,
                 struct error *error)
{
    for (size_t i = 0; given->shared.memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = given->shared.memory_bytes;
    if (!divide_batch(given, profile, error))
        return command_fail(error);
    struct progress progress = { 0 };
    struct storage storage = { .optimizer = OPTIMIZER_USUAL };
    storage_options_apply(&given->storage, &storage);
    storage_options_tie(&given->storage, profile, true, &storage);
    if (!storage_check(&storage, profile, cluster, true, error))  // what no row can do is refused once
        return command_fail(error);
    const struct sweep_request request = {
        .profile = profile,
        .cluster = cluster,
        .storage = storage,
        .schedules = given->schedules,
        .schedule_count = given->schedule_count,
        .engine = given->engine,
        .own_order = given->shared.own_order,
        .ranks = { given->ranks.at, given->ranks.count },
        .chunks = { given->chunks.at, given->chunks.count },
        .micro_batches = { given->micro_batches.at, given->micro_batches.count },
        .budget = given->budget,
        .threads = (unsigned)given->jobs,
        .interrupted = command_interrupted(),
        .progress = show,
        .self = &progress,
    };
    struct sweep *found = sweep_run(&request, error);
    progress_end(&progress);
    const int code = found ? print(given, found) : command_fail(error);
    sweep_free(found);
    return code;
}

// --config is a separate command with its own options.
static bool has_config(int count, char **arguments)
{
    for (int i = 1; i < count && strcmp(arguments[i], "--") != 0; i++)
        if (strncmp(arguments[i], "--config", 8) == 0 && (arguments[i][8] == '\0' || arguments[i][8] == '='))
            return true;
    return false;
}

static int run(int count, char **arguments)
{
    if (has_config(count, arguments))
        return command_run_configs(count, arguments);
    struct sweep_arguments given = { .profile = NULL };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct profile *profile = plan_profile(given.profile, &error);
    struct cluster *cluster = profile ? cluster_load(given.shared.cluster, &error) : NULL;
    const int code = cluster ? sweep(&given, profile, cluster, &error) : command_fail(&error);
    cluster_free(cluster);
    profile_free(profile);
    free(given.names);
    return code;
}

const struct command command_sweep = { "sweep", "plan for every schedule: time against memory", run };
