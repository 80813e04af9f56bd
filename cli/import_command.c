// weir import FORMAT FILE: makes a profile from a file of another tool.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/alike.h"
#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "profiler/import.h"

enum { KEY_MICRO_BATCH = KEY_OWN, KEY_CLUSTER_OUTPUT };

struct import_arguments {
    const char *format, *file;
    const char *cluster;  // output file for the cluster, or NULL
    uint64_t micro_batch;
    struct shared_options shared;
};

struct format {
    const char *name;
    const char *about;
    struct profile *(*import)(const char *path, uint64_t micro_batch, struct cluster **cluster, struct error *error);
};

// PipeDream's graphs say nothing about a machine.
static struct profile *import_graph(const char *path, uint64_t micro_batch, struct cluster **cluster,
                                    struct error *error)
{
    if (!cluster)
        return import_pipedream(path, micro_batch, error);
    return error_null(error_set(error, "--cluster-output: a graph of PipeDream does not say which machine it is for"));
}

static const struct format formats[] = {
    { "pipedream", "graph.txt of PipeDream's profiler, with or without stages", import_graph },
    { "dnn-partitioning", "input of msr-fiddle/dnn-partitioning, inference or training", import_dnn_partitioning },
    { "piper", "input of msr-fiddle/piper, with the ways to run each layer", import_piper },
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const struct argp_option options[] = {
    OPTION_OUTPUT,
    { "micro-batch", KEY_MICRO_BATCH, "N", 0, "Samples in the micro-batch, where the file does not say (1)", 0 },
    { "cluster-output", KEY_CLUSTER_OUTPUT, "FILE", 0, "Write the machine the file is for too, as a cluster", 0 },
    { 0 },
};

static bool is_standard(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static error_t parse_import_option(int key, char *argument, struct argp_state *state)
{
    struct import_arguments *given = state->input;
    switch (key) {
    case KEY_MICRO_BATCH:
        given->micro_batch = option_count(argument, "--micro-batch", 1, JSON_MAX, state);
        break;
    case KEY_CLUSTER_OUTPUT:
        given->cluster = argument;
        break;
    case ARGP_KEY_ARG:
        if (given->file)
            argp_error(state, "one file, not also \"%s\"", argument);
        *(given->format ? &given->file : &given->format) = argument;
        break;
    case ARGP_KEY_END:
        if (!given->file)
            argp_error(state, "a format and a file are needed");
        if (is_standard(given->cluster) && (!given->shared.output || is_standard(given->shared.output)))
            argp_error(state, "--cluster-output -: standard output has the profile; name a file for one of the two");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

// The formats, one per line, at the end of the help text.
static char *list_formats(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    struct text list = { 0 };
    text_add(&list, "Formats:\n");
    for (size_t i = 0; i < FORMATS; i++)
        text_add(&list, "  %-16s %s\n", formats[i].name, formats[i].about);
    text_add(&list, "\nExample:\n  weir import pipedream vgg16.graph.txt -o profile.json\n");
    return command_help(&list);
}

static const struct argp argp = {
    .options = options,
    .parser = parse_import_option,
    .args_doc = "FORMAT FILE",
    .doc = "Makes a profile of what another tool wrote. FILE may be \"-\", standard input.\v-",
    .help_filter = list_formats,
};

static struct profile *import(const struct import_arguments *given, struct cluster **cluster, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(given->format, formats[i].name) == 0)
            return formats[i].import(given->file, given->micro_batch, given->cluster ? cluster : NULL, error);
        alike_try(&alike, given->format, formats[i].name);
    }
    error_set(error, "there is no format \"%.60s\" to import%s (weir import --help lists them)", given->format,
              alike_said(&alike, said));
    return NULL;
}

// Prints a summary if the document itself goes to another place.
static int print_summary(const struct profile *profile, const char *path)
{
    struct text text = { 0 };
    char time[NUMBER_SIZE], bytes[NUMBER_SIZE];
    uint64_t parameter_bytes = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        parameter_bytes += profile->layers[i].parameter_bytes;
    shown_add(&text, "%s: %s, %zu layers, %s for F and B, %s of parameters. %s", path, profile->model,
              profile->layer_count, time_format(profile->source.sum_ns, time), bytes_format(parameter_bytes, bytes),
              profile->notes ? profile->notes : "");
    text_add(&text, "\n");
    return command_print(&text, NULL, 0);
}

static int run(int count, char **arguments)
{
    struct import_arguments given = { .micro_batch = 1 };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct cluster *cluster = NULL;
    struct profile *profile = import(&given, &cluster, &error);
    if (!profile)
        return command_fail(&error);
    struct text text = { 0 }, machine = { 0 };
    profile_write(profile, &text);
    int code = command_write(&text, given.shared.output, 0);
    if (code == 0 && cluster) {
        cluster_write(cluster, &machine);
        code = command_write(&machine, given.cluster, 0);
    }
    cluster_free(cluster);
    if (code == 0 && given.shared.output && !is_standard(given.shared.output) && !is_standard(given.cluster))
        code = print_summary(profile, given.shared.output);
    profile_free(profile);
    return code;
}

const struct command command_import = { "import", "make a profile of another tool's file", run };
