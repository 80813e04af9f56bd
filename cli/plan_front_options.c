#include "cli/plan_front_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "common/number.h"
#include "common/progress.h"
#include "partitioner/plan_search.h"
#include "partitioner/sweep/plan_front.h"

enum { KEY_FRONT = KEY_OWN, KEY_SVG, KEY_RESOLUTION, KEY_RANKS_LIST = KEY_RANKS };

#define OPTION_RESOLUTION \
    { "resolution", KEY_RESOLUTION, "PERCENT", 0, "How far apart limits are (2%; 0% misses no plan)", 0 }
#define OPTION_SVG { "svg", KEY_SVG, "FILE", 0, "Where a picture of it goes", 0 }

static const struct argp_option options[] = {
    { "ranks", KEY_RANKS_LIST, "P,P,...", 0, "Numbers of devices (1,2,4,... up to all)", 0 },
    OPTION_RESOLUTION,
    OPTION_SVG,
    { 0 },
};

static const struct argp_option old_options[] = {
    { "front", KEY_FRONT, "RANKS", OPTION_ARG_OPTIONAL, NULL, 0 },
    OPTION_RESOLUTION,
    OPTION_SVG,
    { 0 },
};

// "1,2,4", each more than the one before.
static void take_ranks(const char *argument, const char *option, struct front_options *given, struct argp_state *state)
{
    char copy[512];
    given->ranks_option = option;
    if (strlen(argument) >= sizeof copy)
        argp_error(state, "%s: is longer than %zu letters", option, sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", argument);
    given->rank_count = 0;
    for (char *at = copy; at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (given->rank_count == sizeof given->ranks / sizeof given->ranks[0])
            argp_error(state, "%s: takes up to %zu numbers", option, given->rank_count);
        const uint32_t ranks = (uint32_t)option_count(at, option, 1, 4096, state);
        if (given->rank_count > 0 && ranks <= given->ranks[given->rank_count - 1])
            argp_error(state, "%s: %u does not come after %u", option, ranks, given->ranks[given->rank_count - 1]);
        given->ranks[given->rank_count++] = ranks;
        at = comma;
    }
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct front_options *given = state->input;
    switch (key) {
    case KEY_FRONT:
        given->is_asked = true;
        if (argument)
            take_ranks(argument, "--front", given, state);
        return 0;
    case KEY_RANKS_LIST:
        take_ranks(argument, "--ranks", given, state);
        return 0;
    case KEY_SVG:
        given->svg = argument;
        return 0;
    case KEY_RESOLUTION:
        given->has_resolution = true;
        given->resolution_ppm = option_share(argument, "--resolution", 500000, state);
        return 0;
    case ARGP_KEY_END:
        if (!given->is_asked && (given->svg || given->has_resolution))
            argp_error(state, "--front is missing, which --svg and --resolution are about");
        if (!given->has_resolution)
            given->resolution_ppm = FRONT_DEFAULT_PPM;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp front_argp = { .options = options, .parser = take };
const struct argp front_old_argp = { .options = old_options, .parser = take };

void front_check(const struct front_options *given, const struct plan_options *plan,
                 const struct shared_options *output, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &plan->arrangement;
    if (given->rank_count > 0 && (arrangement->replica_count > 0 || arrangement->device_count > 0))
        argp_error(state, "%s=RANKS takes several numbers of devices, --replicas and --devices name one; leave the"
                          " numbers of %s out", given->ranks_option, given->ranks_option);
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
    if (output->json || (output->output && strcmp(output->output, "-") == 0)) {
        front_write(front, &text);
        return command_write(&text, output->output, 0);
    }
    if (output->output) {
        front_write(front, &text);
        const int failed = command_write(&text, output->output, 0);
        if (failed)
            return failed;
    }
    front_print(front, &text);
    return command_print(&text, NULL, 0);
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
    plan_search_blame_deadline(request->limits.deadline_ns, &error);
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
