// weir export FORMAT PLAN: the plan in another framework's format.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "exports/export.h"
#include "profiler/profile.h"

enum { KEY_PROFILE = KEY_OWN, KEY_UNITS, KEY_BASE };

struct export_arguments {
    const char *format, *plan, *profile, *base;
    uint32_t *units;
    size_t unit_count;
    struct shared_options shared;  // -o
};

static const struct argp_option options[] = {
    { "profile", KEY_PROFILE, "FILE", 0, "The profile that the plan was made of: what cannot be said is rounded and"
      " priced",
      0 },
    { "units", KEY_UNITS, "N,N,..", 0, "How many layers are the input, each block, and the output there; where names do"
      " not tell", 0 },
    { "base", KEY_BASE, "MODULE.FUNCTION", 0, "The config function of torchtitan's that the plan is added to; what is"
      " written is then a module that torchtitan loads, with the config function planned", 0 },
    OPTION_OUTPUT,
    { 0 },
};

static error_t parse_export_option(int key, char *argument, struct argp_state *state)
{
    struct export_arguments *given = state->input;
    switch (key) {
    case KEY_PROFILE:
        given->profile = argument;
        break;
    case KEY_BASE:
        given->base = argument;
        break;
    case KEY_UNITS:
        given->unit_count =
            option_all_counts(argument, "--units", 0, PROFILE_MOST_LAYERS, &given->units, state);
        break;
    case ARGP_KEY_ARG:
        if (given->plan)
            argp_error(state, "one plan, not also \"%s\"", argument);
        *(given->format ? &given->plan : &given->format) = argument;
        break;
    case ARGP_KEY_END:
        if (!given->plan)
            argp_error(state, "a format and a plan are needed");
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
    text_add(&list, "Exit code 1: the format has no way to say it.\n\nFormats:\n");
    for (const struct export_format *format = export_formats; format->name; format++)
        text_add(&list, "  %-12s %s\n", format->name, format->about);
    text_add(&list, "\nExamples:\n  weir export megatron plan.json\n"
                    "  weir export torchtitan plan.json --profile profile.json -o pipeline.py \\\n"
                    "      --base torchtitan.models.llama3.config_registry.llama3_8b\n");
    return command_help(&list);
}

static const struct argp argp = {
    .options = options,
    .parser = parse_export_option,
    .args_doc = "FORMAT PLAN",
    .doc = "Writes a plan as another framework is told it: arguments, a part of its configuration, or Python. What the"
           " format cannot say is a sentence each, on standard error and as comments.\v-",
    .help_filter = list_formats,
};

static void say_all(const struct export_arguments *given, const struct text *said)
{
    for (char *line = said->data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        command_say("%s: %s", given->plan, line);
    }
}

static int export(const struct export_arguments *given, const struct export_format *format, const struct plan *plan,
                  const struct profile *profile)
{
    const struct export_request request = { .plan = plan, .profile = profile, .units = given->units,
                                            .unit_count = given->unit_count, .base = given->base };
    struct error error = { 0 };
    struct text text = { 0 }, said = { 0 };
    const bool good = plan_export(format, &request, &text, &said, &error);
    if (good)
        say_all(given, &said);
    text_clear(&said);
    if (good)
        return command_write(&text, given->shared.output, 0);
    text_clear(&text);
    error_name(&error, "%s", strcmp(given->plan, "-") == 0 ? "standard input" : given->plan);
    return command_fail(&error);
}

static int run(int count, char **arguments)
{
    struct export_arguments given = { 0 };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    const struct export_format *format = export_find(given.format, &error);
    struct plan *plan = format ? plan_load(given.plan, &error) : NULL;
    struct profile *profile = plan && given.profile ? plan_profile(given.profile, &error) : NULL;
    const bool good = plan && (profile ? plan_use_with(plan, given.plan, profile, given.profile,
                                                       EXPORT_ASKS | EXPORT_REFUSES, EXPORT_REFUSES, &error)
                                       : !given.profile && plan_use(plan, given.plan, (struct plan_company){ 0 },
                                                                    EXPORT_ASKS, 0, &error));
    const int code = good ? export(&given, format, plan, profile) : command_fail(&error);
    profile_free(profile);
    plan_free(plan);
    free(given.units);
    return code;
}

const struct command command_export = { "export", "a plan in another framework's words", run };
