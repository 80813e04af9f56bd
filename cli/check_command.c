// weir check FILE: whether a schedule can run, or a plan holds.

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/subject.h"
#include "partitioner/evaluate.h"
#include "schedules/check.h"

enum { KEY_SENDS = KEY_OWN, KEY_PROFILE };

struct given {
    struct subject_options subject;
    const char *profile;  // FILE is a plan of it
    bool has_sends;
    uint64_t capacity;
};

static const struct argp_option options[] = {
    { "sends", KEY_SENDS, "MODEL", 0,
      "rendezvous (a send ends when its receive is reached; the default) or eager:K (K sends per channel are buffered)", 0 },
    { "profile", KEY_PROFILE, "PROFILE", 0, "FILE is a plan: hold every number of it against this profile", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

static uint64_t take_sends(const char *argument, struct argp_state *state)
{
    if (strcmp(argument, "rendezvous") == 0)
        return 0;
    if (strncmp(argument, "eager:", 6) != 0)
        argp_error(state, "--sends: \"%s\" is neither rendezvous nor eager:K", argument);
    return option_count(argument + 6, "--sends", 0, CHECK_NEVER - 1, state);
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_SENDS:
        given->has_sends = true;
        given->capacity = take_sends(argument, state);
        break;
    case KEY_PROFILE:
        given->profile = argument;
        break;
    case ARGP_KEY_END:
        if (given->profile && (given->subject.shared.json || given->has_sends))
            argp_error(state, "--json and --sends are for schedules, --profile for plans");
        return subject_option(key, argument, &given->subject, state);
    default:
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "FILE",
    .doc = "Proves that a schedule can run, or names rank, position and reason. FILE may be \"-\", standard input. Of "
           "a plan it proves the schedule; with --profile, all that the plan states is computed anew, by other means "
           "than the search's.\v"
           "Positions count from 0. Exit code 1: it cannot run, or does not hold.\n\nExamples:\n"
           "  weir schedule 1f1b --ranks 4 --micro-batches 8 --format json | weir check -\n"
           "  weir check plan.json --profile profile.json\n",
};

static void add_sends(uint32_t capacity, struct text *text)
{
    if (capacity == 0)
        text_add(text, "rendezvous sends");
    else
        text_add(text, "%u buffered send%s per channel", capacity, capacity == 1 ? "" : "s");
}

static void write_fault(const struct check_fault *fault, struct text *text)
{
    char action[ACTION_SIZE];
    text_add(text, "rank %u, ", fault->rank);
    if (fault->position != SIZE_MAX)
        text_add(text, "position %zu, ", fault->position);
    text_add(text, "%s: %s\n", action_format(fault->action, action), fault->reason);
}

// What was found, in lines; last what would be enough.
static void write_findings(const struct given *given, const struct schedule *schedule,
                           const struct check_result *result, struct text *text)
{
    for (size_t i = 0; i < result->fault_count; i++)
        write_fault(&result->faults[i], text);
    if (result->cycle.data)
        text_add(text, "%s\n", result->cycle.data);
    if (result->ok) {
        text_add(text, "%s can run: %u ranks, %u stages, %u micro-batches; it needs ", schedule->name,
                 schedule->ranks, schedule->stages, schedule->micro_batches);
        add_sends(result->capacity, text);
        text_add(text, ".\n");
        return;
    }
    text_add(text, "%s cannot run", schedule->name);
    if (result->capacity != CHECK_NEVER && result->capacity > given->capacity) {
        text_add(text, " with ");
        add_sends((uint32_t)given->capacity, text);
        text_add(text, "; it comes to its end with ");
        add_sends(result->capacity, text);
    }
    text_add(text, ".\n");
}

static int check_plan(const struct given *given)
{
    struct error error = { 0 };
    struct profile *profile = profile_load(given->profile, &error);
    struct plan *plan = profile ? plan_load(given->subject.file, &error) : NULL;
    bool holds = false;
    if (plan) {
        holds = plan_evaluate(plan, profile, &error);
        if (!holds)
            error_at(&error, "%s", given->subject.file);
    }
    plan_free(plan);
    profile_free(profile);
    if (!holds)
        return command_fail(&error);
    struct text text = { 0 };
    text_add(&text, "%s holds: every number is what %s gives, and every stage fits.\n", given->subject.file,
             given->profile);
    return command_write(&text, given->subject.shared.output, 0);
}

static int run(int count, char **arguments)
{
    struct given given = { .profile = NULL };
    command_parse(&argp, count, arguments, &given);
    if (given.profile)
        return check_plan(&given);

    struct error error = { 0 };
    struct subject subject = { 0 };
    struct check_result result;
    if (!subject_load(&given.subject, &subject, &error)
        || !schedule_check(subject.schedule, (uint32_t)given.capacity, &result, &error)) {
        subject_clear(&subject);
        return command_fail(&error);
    }
    const int code = result.ok ? 0 : ERROR_ANSWER;
    struct text text = { 0 };
    if (given.subject.shared.json)
        check_result_write(&result, &text);
    else
        write_findings(&given, subject.schedule, &result, &text);
    check_result_clear(&result);
    subject_clear(&subject);
    return command_write(&text, given.subject.shared.output, code);
}

const struct command command_check = { "check", "prove that a schedule can run, or say where it cannot", run };
