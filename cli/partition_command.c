// weir partition PROFILE: which layers on which devices, and which are recomputed.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/search.h"
#include "partitioner/second_opinion.h"

enum { KEY_BUDGET = KEY_OWN, KEY_DEADLINE, KEY_SECOND_OPINION };

struct given {
    const char *profile;
    uint64_t budget, deadline_ns;
    bool second_opinion;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_CLUSTER,
    OPTION_SCHEDULE,
    OPTION_MICRO_BATCHES,
    OPTION_RANKS,
    OPTION_CHUNKS,
    OPTION_MEMORY,
    OPTION_OPTIMIZER,
    { "budget", KEY_BUDGET, "N", 0, "Units of work the search may take (3000000, a few seconds)", 0 },
    { "deadline", KEY_DEADLINE, "TIME", 0, "Time the search may take, such as 10s; results may then differ", 0 },
    { "second-opinion", KEY_SECOND_OPINION, 0, 0, "Let GLPK find the least bound of small cases too, and compare", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

static error_t take_deadline(const char *argument, struct given *given, struct argp_state *state)
{
    struct error error = { 0 };
    if (!time_parse(argument, &given->deadline_ns, &error))
        argp_error(state, "--deadline: %s", error.text);
    if (given->deadline_ns == 0)
        argp_error(state, "--deadline: a search needs more time than %s", argument);
    return 0;
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_BUDGET:
        given->budget = option_count(argument, "--budget", 1, JSON_MAX, state);
        break;
    case KEY_DEADLINE:
        return take_deadline(argument, given, state);
    case KEY_SECOND_OPINION:
        given->second_opinion = true;
        break;
    case ARGP_KEY_ARG:
        option_argument(&given->profile, argument, "profile", state);
        break;
    case ARGP_KEY_END:
        if (!given->profile || !given->shared.cluster || !given->shared.schedule || !given->shared.micro_batches)
            argp_error(state, "a profile, --cluster, --schedule and --micro-batches are needed");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "PROFILE",
    .doc = "Cuts a model into the stages of a schedule and decides what to recompute, so that an iteration"
           " takes the least simulated time and every stage fits on its device. Prints the plan as a table;"
           " -o writes the document. Ctrl-C ends the search with the best plan found so far; a second one ends it at once."
           "\vRanks are the cluster's devices in order (--ranks P: the first P). Exit code 1: nothing fits.\n\nExample:\n"
           "  weir partition profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
           "      --schedule 1f1b --micro-batches 16 -o plan.json\n",
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static struct search_request request_of(const struct given *given, const struct profile *profile,
                                        struct cluster *cluster)
{
    const struct shared_options *shared = &given->shared;
    for (size_t i = 0; shared->memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = shared->memory_bytes;
    return (struct search_request){
        .profile = profile,
        .cluster = cluster,
        .schedule = shared->schedule,
        .ranks = (uint32_t)(shared->ranks ? shared->ranks : cluster->device_count),
        .chunks = (uint32_t)shared->chunks,
        .micro_batches = (uint32_t)shared->micro_batches,
        .optimizer = shared->has_optimizer ? shared->optimizer : OPTIMIZER_ADAMW,
        .budget = given->budget,
        .deadline_ns = given->deadline_ns,
        .interrupted = &interrupted,
    };
}

static int print(const struct given *given, const struct plan *plan)
{
    struct text table = { 0 }, document = { 0 };
    plan_write(plan, &document);
    const char *output = given->shared.output;
    if (given->shared.json || (output && strcmp(output, "-") == 0))
        return command_write(&document, output, 0);
    int code = 0;
    if (output)
        code = command_write(&document, output, 0);
    text_clear(&document);
    if (code)
        return code;
    plan_print(plan, &table);
    return command_write(&table, NULL, 0);
}

// GLPK gets a minute and 4 GiB.
static int print_second_opinion(const struct search_request *request, struct error *error)
{
    struct second_opinion opinion;
    if (!second_opinion_ask(request, (struct integer_limits){ 60, (uint64_t)4 << 30 }, &opinion, error))
        return command_fail(error);
    struct text text = { 0 };
    second_opinion_print(&opinion, &text);
    return command_write(&text, NULL, 0);
}

static int search(const struct given *given, const struct profile *profile, struct error *error)
{
    struct cluster *cluster = cluster_load(given->shared.cluster, error);
    if (!cluster)
        return command_fail(error);
    const struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };  // a second one kills
    sigaction(SIGINT, &action, NULL);
    const struct search_request request = request_of(given, profile, cluster);
    struct plan *plan = plan_search(&request, error);
    int code = plan ? print(given, plan) : command_fail(error);
    if (code == 0 && given->second_opinion)
        code = print_second_opinion(&request, error);
    plan_free(plan);
    cluster_free(cluster);
    return code;
}

static int run(int count, char **arguments)
{
    struct given given = { .profile = NULL };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct profile *profile = profile_load(given.profile, &error);
    if (!profile)
        return command_fail(&error);
    const int code = search(&given, profile, &error);
    profile_free(profile);
    return code;
}

const struct command command_partition = { "partition", "cut a model into stages, decide what to recompute", run };
