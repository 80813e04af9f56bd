#include "cli/traces.h"

#include <string.h>
#include <zlib.h>

#include "cli/command.h"
#include "cli/options.h"

static int64_t take_iteration(const char *argument, struct argp_state *state)
{
    if (strcmp(argument, "last") == 0)
        return TRACE_LAST;
    if (strcmp(argument, "all") == 0)
        return TRACE_ALL;
    return (int64_t)option_count(argument, "--iteration", 0, 1u << 30, state);
}

static void take_file(const char *file, struct trace_options *options, struct argp_state *state)
{
    if (options->count == MOST_TRACES)
        argp_error(state, "--trace: more than %d files", MOST_TRACES);
    options->files[options->count++] = file;
}

error_t trace_option(int key, char *argument, struct trace_options *options, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->count == 0)
            return ARGP_ERR_UNKNOWN;
        take_file(argument, options, state);  // further files, as the shell expands --trace rank*.json
        break;
    case KEY_TRACE:
        take_file(argument, options, state);
        break;
    case KEY_ITERATION:
        options->iteration = take_iteration(argument, state);
        options->has_iteration = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// --- reading ------------------------------------------------------------------------

bool traces_load(const struct trace_options *options, struct measured_run *run, struct error *error)
{
    const int64_t iteration = options->has_iteration ? options->iteration : TRACE_LAST;
    struct text notes = { 0 };
    if (!measured_run_load(options->files, options->count, iteration, run, error))
        return false;
    measured_run_note(run, &notes);
    const bool good = command_say_lines(options->files[0], &notes, error);
    text_clear(&notes);
    return good;
}

bool trace_is_likely(const char *file)
{
    char begin[4096];
    gzFile source = strcmp(file, "-") == 0 ? NULL : gzopen(file, "rb");
    if (!source)
        return false;
    const int length = gzread(source, begin, sizeof begin - 1);
    const bool packed = !gzdirect(source);
    gzclose(source);
    if (length <= 0)
        return packed;
    begin[length] = '\0';
    const char first = begin[strspn(begin, " \t\r\n")];
    return packed || first == '[' || (first == '{' && !strstr(begin, "\"weir."));
}
