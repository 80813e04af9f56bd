// weir place TABLES|PROFILE --cluster C: which embedding tables, or experts, are on which members of a group.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "cli/result.h"
#include "common/json.h"
#include "partitioner/experts/expert_report.h"
#include "partitioner/tables/table_plan.h"
#include "partitioner/tables/table_profile.h"

enum { KEY_OPTIMIZER = KEY_OWN, KEY_SECONDS, KEY_LAYER };

struct place_arguments {
    const char *tables, *layer;
    unsigned optimizer;
    bool has_optimizer;
    uint64_t seconds;
    bool without_solver;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_CLUSTER,
    OPTION_MEMORY,
    { "optimizer", KEY_OPTIMIZER, "NAME", 0, "sgd, adagrad, adagrad-rows or adam-rows (sgd)", 0 },
    OPTION_MICRO_BATCHES,
    { "layer", KEY_LAYER, "NAME", 0, "The layer of a profile whose tables are placed (all)", 0 },
    { "seconds", KEY_SECONDS, "N", 0, "The most that GLPK may take; 0: no bound by it (4 to 400 programs)", 0 },
    OPTION_RESULT,
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_OPTIMIZER, OPTION_FIELD_GIVEN(struct place_arguments, optimizer, has_optimizer),
      .names = table_optimizer_names },
    { KEY_LAYER, OPTION_FIELD(struct place_arguments, layer) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct place_arguments, tables), .what = "tables document or profile" },
    { 0 },
};

static error_t parse_place_option(int key, char *argument, struct argp_state *state)
{
    struct place_arguments *given = state->input;
    switch (key) {
    case KEY_SECONDS:
        given->seconds = option_count(argument, "--seconds", 0, 100000, state);
        given->without_solver = given->seconds == 0;
        break;
    case ARGP_KEY_END:
        if (!given->tables || !given->shared.cluster)
            argp_error(state, "a tables document or a profile, and --cluster are needed");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_place_option,
    .args_doc = "TABLES\nPROFILE",
    .doc = "Places embedding tables on the members of a group: whole, by rows or columns over some of them, copied on"
           " all, or in the host's memory. Least is the slowest member's reads plus the slowest link's time. Says how"
           " far from the least that can be, what four rules of other systems would take, which table binds and what"
           " splitting it would gain. Ctrl-C ends the bound with what is known."
           " Or places the experts of a profile by how its micro-batches chose them: least is the slowest member's"
           " pairs of a token and an expert, in the mean. Busy experts are copied on all members where that pays by"
           " the time in which --cluster adds up their gradients, once in --micro-batches (1)."
           "\vA profile of weir profile --data has how its tables are read. It has one time for all of them, from which"
           " one rate of reads follows; a tables document states rates by size.\n\n"
           "Exit code 1: nothing fits.\n\nExamples:\n"
           "  weir place tables.json --cluster \"8 devices, 80GiB, 300GB/s 3us\"\n"
           "  weir place profile.json --cluster \"8 devices, 80GiB, 300GB/s 3us\" -m 4 \\\n      --optimizer adagrad\n",
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
    struct result result = { 0 };
    table_plan_write(plan, &result.document);
    table_plan_print(plan, &result.table);
    table_plan_free(plan);
    return result_print(&result, &given->shared, 0);
}

// False with an error if the text is no document at all.
static bool find_format(const char *text, size_t length, const char *name, bool *is_profile, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return false;
    struct json root = json_root(document), format;
    *is_profile = json_find(&root, "format", &format) && json_kind(&format) == JSON_STRING
               && strcmp(json_item_string(&format), "weir.profile") == 0;
    json_free(document);
    return true;
}

// What is placed: tables, or the experts of a profile.
struct placed {
    struct table_set *set;
    struct profile *experts;
};

static bool take_experts(const struct place_arguments *given, struct profile *profile, struct placed *placed,
                         struct error *error)
{
    const char *useless = given->has_optimizer                        ? "--optimizer"
                        : given->layer                                ? "--layer"
                        : given->shared.memory_bytes > 0              ? "--memory"
                        : given->seconds > 0 || given->without_solver ? "--seconds"
                                                                      : NULL;
    if (useless) {
        profile_free(profile);
        return error_set(error, "%s is for tables: the profile has experts, and each member gets its share of them",
                         useless);
    }
    placed->experts = profile;
    return true;
}

static struct table_set *set_of_profile(const struct place_arguments *given, struct profile *profile,
                                        uint32_t members, struct error *error)
{
    const struct table_profile_request request = { .profile = profile, .layer = given->layer,
                                                   .micro_batches = given->shared.micro_batches,
                                                   .optimizer = (enum table_optimizer)given->optimizer,
                                                   .members = members };
    struct table_set *set = NULL;
    if (profile && given->shared.micro_batches == 0)
        error_set(error, "a profile does not say how many micro-batches an iteration has: --micro-batches does");
    else if (profile)
        set = table_set_of_profile(&request, error);
    profile_free(profile);
    return set;
}

static bool take_profile(const struct place_arguments *given, struct profile *read, uint32_t members,
                         struct placed *placed, struct error *error)
{
    struct profile *profile = plan_profile_said(read, given->tables, error);
    if (profile && profile->routing)
        return take_experts(given, profile, placed, error);
    return (placed->set = set_of_profile(given, profile, members, error)) != NULL;
}

static bool load(const struct place_arguments *given, uint32_t members, struct placed *placed, struct error *error)
{
    size_t length;
    char *text = text_load(given->tables, &length, error);
    bool is_profile = false, good = false;
    if (!text || !find_format(text, length, given->tables, &is_profile, error)) {
        free(text);
        return false;
    }
    if (is_profile)
        good = take_profile(given, profile_read(text, length, given->tables, error), members, placed, error);
    else if (given->shared.micro_batches > 0 || given->layer)
        error_set(error, "%s is for a profile: a tables document says it itself",
                  given->layer ? "--layer" : "--micro-batches");
    else
        good = (placed->set = table_set_read(text, length, given->tables, error)) != NULL;
    if (!good)
        command_name_files(error, given->tables, NULL);
    free(text);
    return good;
}

static bool are_alike(const struct cluster *cluster, struct error *error)
{
    for (size_t i = 1; i < cluster->device_count; i++)
        if (cluster->devices[i].speed_permille != cluster->devices[0].speed_permille)
            return error_set(error, "--cluster: device %zu has another speed than device 0, and experts are placed on"
                             " devices that are alike: name a cluster of such", i);
    return true;
}

static int place_experts(const struct place_arguments *given, const struct profile *profile,
                         const struct cluster *cluster, struct error *error)
{
    struct expert_plans plans;
    const struct copy_pricing pricing = { profile, cluster, (uint32_t)cluster->device_count,
                                          given->shared.micro_batches > 0 ? given->shared.micro_batches : 1 };
    if (!are_alike(cluster, error) || !expert_plans_make(&pricing, &plans, error))
        return command_fail(error);
    struct result result = { 0 };
    expert_plans_write(&plans, &result.document);
    expert_plans_print(&plans, &result.table);
    expert_plans_clear(&plans);
    return result_print(&result, &given->shared, 0);
}

static int run(int count, char **arguments)
{
    struct place_arguments given = { .tables = NULL };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct cluster *cluster = cluster_load(given.shared.cluster, &error);
    struct placed placed = { 0 };
    const uint32_t members = cluster ? (uint32_t)cluster->device_count : 0;
    const bool good = cluster && load(&given, members, &placed, &error);
    for (size_t i = 0; good && given.shared.memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = given.shared.memory_bytes;
    const int code = !good            ? command_fail(&error)
                   : placed.experts ? place_experts(&given, placed.experts, cluster, &error)
                                    : place(&given, placed.set, cluster, &error);
    cluster_free(cluster);
    table_set_free(placed.set);
    profile_free(placed.experts);
    return code;
}

const struct command command_place = { "place", "which embedding tables, or experts, on which devices", run };
