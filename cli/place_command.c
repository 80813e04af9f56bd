// weir place TABLES --cluster C: which embedding tables are on which members of a group.

#include "cli/command.h"
#include "cli/options.h"
#include "partitioner/tables/table_plan.h"

enum { KEY_OPTIMIZER = KEY_OWN, KEY_SECONDS };

struct place_arguments {
    const char *tables;
    unsigned optimizer;
    uint64_t seconds;
    bool without_solver;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_CLUSTER,
    OPTION_MEMORY,
    { "optimizer", KEY_OPTIMIZER, "NAME", 0, "sgd, adagrad, adagrad-rows or adam-rows (sgd)", 0 },
    { "seconds", KEY_SECONDS, "N", 0, "The most that GLPK may take; 0: no bound by it (4 to 400 programs)", 0 },
    OPTION_RESULT,
    { 0 },
};

static error_t parse_place_option(int key, char *argument, struct argp_state *state)
{
    struct place_arguments *given = state->input;
    switch (key) {
    case KEY_OPTIMIZER:
        given->optimizer = option_name(argument, "--optimizer", table_optimizer_names, state);
        break;
    case KEY_SECONDS:
        given->seconds = option_count(argument, "--seconds", 0, 100000, state);
        given->without_solver = given->seconds == 0;
        break;
    case ARGP_KEY_ARG:
        option_argument(&given->tables, argument, "tables document", state);
        break;
    case ARGP_KEY_END:
        if (!given->tables || !given->shared.cluster)
            argp_error(state, "a tables document and --cluster are needed");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_place_option,
    .args_doc = "TABLES",
    .doc = "Places embedding tables on the members of a group: whole, by rows or columns over some of them, copied on"
           " all, or in the host's memory. Least is the slowest member's reads plus the slowest link's time. Says how"
           " far from the least that can be, what four rules of other systems would take, which table binds and what"
           " splitting it would gain. Ctrl-C ends the bound with what is known."
           "\vExit code 1: nothing fits.\n\nExample:\n"
           "  weir place tables.json --cluster \"8 devices, 80GiB, 300GB/s 3us\"\n",
};

static int place(const struct place_arguments *given, const struct table_set *set, const struct cluster *cluster,
                 struct error *error)
{
    const struct table_request request = { .set = set, .cluster = cluster,
                                           .optimizer = (enum table_optimizer)given->optimizer,
                                           .seconds = given->seconds,
                                           .without_solver = given->without_solver,
                                           .interrupted = command_interrupted() };
    struct table_plan *plan = table_plan_make(&request, error);
    if (!plan) {
        command_name_files(error, given->tables, NULL);
        return command_fail(error);
    }
    struct text text = { 0 };
    if (given->shared.json)
        table_plan_write(plan, &text);
    else
        table_plan_print(plan, &text);
    table_plan_free(plan);
    return (given->shared.json ? command_write : command_print)(&text, given->shared.output, 0);
}

static int run(int count, char **arguments)
{
    struct place_arguments given = { .tables = NULL };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct table_set *set = table_set_load(given.tables, &error);
    struct cluster *cluster = set ? cluster_load(given.shared.cluster, &error) : NULL;
    for (size_t i = 0; cluster && given.shared.memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = given.shared.memory_bytes;
    const int code = cluster ? place(&given, set, cluster, &error) : command_fail(&error);
    cluster_free(cluster);
    table_set_free(set);
    return code;
}

const struct command command_place = { "place", "which embedding tables on which devices", run };
