#include "cli/plan_front_options.h"

#include <string.h>

#include "cli/command.h"
#include "common/number.h"
#include "common/progress.h"
#include "partitioner/plan_search.h"
#include "partitioner/sweep/plan_front.h"

enum { KEY_SVG = KEY_OWN, KEY_RESOLUTION, KEY_RANKS_LIST = KEY_RANKS };

static const struct argp_option options[] = {
    { "ranks", KEY_RANKS_LIST, "P,P,...", 0, "Numbers of devices (1,2,4,... up to all)", 0 },
    { "resolution", KEY_RESOLUTION, "PERCENT", 0, "How far apart limits are (2%; 0% misses no plan)", 0 },
    { "svg", KEY_SVG, "FILE", 0, "Where a picture of it goes", 0 },
    { 0 },
};

static void take_ranks(const char *argument, struct front_options *given, struct argp_state *state)
{
    given->rank_count = option_counts(argument, "--ranks", 1, ASKED_MOST_RANKS, given->ranks,
                                      sizeof given->ranks / sizeof given->ranks[0], state);
    for (size_t i = 1; i < given->rank_count; i++)
        if (given->ranks[i] <= given->ranks[i - 1])
            argp_error(state, "--ranks: %u does not come after %u", given->ranks[i], given->ranks[i - 1]);
}

static error_t parse_front_option(int key, char *argument, struct argp_state *state)
{
    struct front_options *given = state->input;
    switch (key) {
    case KEY_RANKS_LIST:
        take_ranks(argument, given, state);
        return 0;
    case KEY_SVG:
        given->svg = argument;
        return 0;
    case KEY_RESOLUTION:
        given->has_resolution = true;
        given->resolution_ppm = option_share(argument, "--resolution", 500000, state);
        return 0;
    case ARGP_KEY_END:
        if (!given->has_resolution)
            given->resolution_ppm = FRONT_DEFAULT_PPM;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp front_argp = { .options = options, .parser = parse_front_option };

void front_check(const struct front_options *given, const struct plan_options *plan,
                 const struct shared_options *output, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &plan->arrangement;
    if (given->rank_count > 0 && (arrangement->replica_count > 0 || arrangement->device_count > 0))
        argp_error(state, "--ranks takes several numbers of devices, and --replicas and --devices name one; leave"
                          " --ranks out");
    if (given->svg && strcmp(given->svg, "-") == 0 && (output->json || output->output))
        argp_error(state, "--svg -: standard output is for the picture alone; name a file for it");
}

static void show(void *self, uint32_t ranks, uint64_t limit_bytes)
{
    char limit[NUMBER_SIZE];
    progress_show(self, "%u %s, %s each", ranks, ranks == 1 ? "device" : "devices", bytes_format(limit_bytes, limit));
}

static int print(const struct front_options *given, const struct plan_front *front, const struct shared_options *output)
{
    struct text text = { 0 };
    if (given->svg) {
        front_draw(front, &text);
        const int failed = command_write(&text, given->svg, 0);
        if (failed || strcmp(given->svg, "-") == 0)
            return failed;
    }
    struct text table = { 0 };
    front_write(front, &text);
    front_print(front, &table);
    return plan_output_document(&text, output, &table, 0);
}

static int find(const struct front_options *given, const struct plan_options *plan,
                const struct search_request *request, const struct shared_options *output)
{
    struct error error = { 0 };
    struct progress progress = { 0 };
    const struct front_request asked = { .search = request, .ranks = given->ranks, .rank_count = given->rank_count,
                                         .resolution_ppm = given->resolution_ppm, .progress = show, .self = &progress };
    struct plan_front *front = front_find(&asked, &error);
    progress_end(&progress);
    plan_search_blame_deadline(&error);
    const int code = front ? print(given, front, output) : plan_request_fail(plan, NULL, &error);
    front_free(front);
    return code;
}

int front_run(const struct front_options *given, const struct plan_options *plan, const struct shared_options *output)
{
    struct error error = { 0 };
    struct plan_request request;
    if (!plan_request_load(plan, NULL, &request, &error))
        return plan_request_fail(plan, NULL, &error);
    const int code = find(given, plan, &request.request, output);
    plan_request_clear(&request);
    return code;
}
