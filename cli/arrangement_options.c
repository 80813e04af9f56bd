#include "cli/arrangement_options.h"

#include <stdio.h>
#include <string.h>

#include "partitioner/search/search_given.h"

enum { KEY_REPLICAS = KEY_OWN, KEY_DEVICES, KEY_FEWER, KEY_VARIANTS };

static const char automatic[] = "auto";

static const struct argp_option options[] = {
    { "replicas", KEY_REPLICAS, "R,R,...", 0,
      "Ranks of each stage, such as 3,1; or auto", 0 },
    { "devices", KEY_DEVICES, "D,D,...", 0, "Device of each rank, such as 0,3,1; or auto", 0 },
    { "fewer", KEY_FEWER, 0, 0, "Leave devices without work where that is quicker", 0 },
    { "variants", KEY_VARIANTS, "NAME,...", 0,
      "Variant of each stage (-: none), or auto", 0 },
    { 0 },
};

static bool is_automatic(const char *argument)
{
    return argument && strcmp(argument, automatic) == 0;
}

static void take_names(struct arrangement_options *given, const char *argument, struct argp_state *state)
{
    if (is_automatic(argument))
        return;
    if (strlen(argument) >= sizeof given->variant_names)
        argp_error(state, "--variants: longer than %zu bytes", sizeof given->variant_names - 1);
    strcpy(given->variant_names, argument);
    for (char *name = given->variant_names; name; given->variant_count++) {
        char *comma = strchr(name, ',');
        if (comma)
            *comma = '\0';
        if (given->variant_count == ARRANGEMENT_MOST_STAGES || !*name)
            argp_error(state, "--variants: \"%s\" is not names with commas between them", argument);
        given->variant_of[given->variant_count] = strcmp(name, "-") == 0 ? NULL : name;
        name = comma ? comma + 1 : NULL;
    }
}

static error_t parse_arrangement_option(int key, char *argument, struct argp_state *state)
{
    struct arrangement_options *given = state->input;
    switch (key) {
    case KEY_REPLICAS:
        given->replicas = argument;
        given->replica_count = is_automatic(argument) ? 0
            : option_counts(argument, "--replicas", 1, CLUSTER_MOST_DEVICES, given->replicas_of,
                            ARRANGEMENT_MOST_STAGES, state);
        return 0;
    case KEY_DEVICES:
        given->devices = argument;
        given->device_count = is_automatic(argument) ? 0
            : option_counts(argument, "--devices", 0, CLUSTER_MOST_DEVICES - 1, given->devices_of,
                            ARRANGEMENT_MOST_STAGES, state);
        return 0;
    case KEY_FEWER:
        given->fewer = true;
        return 0;
    case KEY_VARIANTS:
        given->variants = argument;
        take_names(given, argument, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp arrangement_argp = { .options = options, .parser = parse_arrangement_option };

// The number of ranks that the options imply.
static uint32_t count_ranks(const struct arrangement_options *given, const struct search_request *request)
{
    uint32_t ranks = 0;
    for (size_t s = 0; s < given->replica_count; s++)
        ranks += given->replicas_of[s];
    if (ranks > 0)
        return ranks;
    if (given->variant_count > 0)
        return (uint32_t)given->variant_count;
    return given->device_count > 0 ? (uint32_t)given->device_count : (uint32_t)request->cluster->device_count;
}

bool arrangement_options_apply(const struct arrangement_options *given, struct search_request *request,
                               struct error *error)
{
    request->free = (struct search_freedom){ .replicas = is_automatic(given->replicas),
                                             .devices = is_automatic(given->devices), .fewer = given->fewer,
                                             .variants = is_automatic(given->variants) };
    if (given->replica_count > 0) {
        request->layout.replicas = given->replicas_of;
        request->layout.stages = (uint32_t)given->replica_count;
    }
    if (given->variant_count > 0) {
        if (given->replica_count > 0 && given->replica_count != given->variant_count)
            return error_named(error, "--variants: has %zu names, but --replicas has %zu stages", given->variant_count,
                               given->replica_count);
        request->layout.variants = given->variant_of;
        request->layout.stages = (uint32_t)given->variant_count;
    }
    if (request->ranks == 0)
        request->ranks = count_ranks(given, request);
    return given->device_count == 0 || search_give_devices(request, given->devices_of, given->device_count, error)
        || error_name(error, "--devices");
}
