// weir profile: looks a profile over.

#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "profiler/lint.h"

enum { KEY_LINT = KEY_OWN };

struct given {
    const char *lint;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    { "lint", KEY_LINT, "FILE", 0, "Say what looks wrong with a profile, a line each", 0 },
    { 0 },
};

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_LINT:
        given->lint = argument;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "no \"%s\" beside --lint", argument);
        break;
    case ARGP_KEY_END:
        if (!given->lint)
            argp_error(state, "--lint and a profile are needed");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "--lint FILE",
    .doc = "Looks a profile over.\v"
           "Exit code 1: a finding makes the profile untrusted.\n\nExample:\n  weir profile --lint profile.json\n",
};

static int lint(const char *path)
{
    struct error error = { 0 };
    struct profile *profile = profile_load(path, &error);
    if (!profile)
        return command_fail(&error);
    struct text text = { 0 };
    const struct lint found = profile_lint(profile, path, &text);
    profile_free(profile);
    const char *plural = found.findings == 1 ? "" : "s";
    if (found.grave > 0)
        text_add(&text, "%zu finding%s: this profile is untrusted.\n", found.findings, plural);
    else if (found.findings > 0)
        text_add(&text, "%zu finding%s, none that makes this profile untrusted.\n", found.findings, plural);
    else
        text_add(&text, "%s: nothing looks wrong.\n", path);
    return command_write(&text, NULL, found.grave > 0 ? ERROR_ANSWER : 0);
}

static int run(int count, char **arguments)
{
    struct given given = { .lint = NULL };
    command_parse(&argp, count, arguments, &given);
    return lint(given.lint);
}

const struct command command_profile = { "profile", "look a profile over", run };
