// weir check FILE: whether a schedule can run, or a plan holds.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan_find.h"
#include "cli/sending.h"
#include "cli/subject.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "common/shown.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/explain/plan_prove.h"
#include "schedules/check.h"

enum { KEY_PROFILE = KEY_OWN, KEY_CHANNELS, KEY_PROVE, KEY_BUDGET };

struct check_arguments {
    struct subject_options subject;
    struct sending_options sending;
    const char *profile;  // the profile that the plan in FILE is for
    bool prove;           // also prove the certificate
    uint64_t budget;
    bool shared;          // one communicator for all channels of a pair of ranks
};

static const struct argp_option options[] = {
    SENDING_OPTIONS,
    OPTION_MEMORY,
    SUBJECT_OPTIONS,
    NAMED_OPTIONS,
    OPTION_NAMED_MICRO_BATCHES,
    { "channels", KEY_CHANNELS, "HOW", 0,
      "apart (a tag for each channel; the default) or shared (one for two ranks, as in NCCL)", 0 },
    { "profile", KEY_PROFILE, "PROFILE", 0, "Of a plan: hold its times and bytes against this", 0 },
    { "prove", KEY_PROVE, 0, 0, "With --profile: the certificate, too, by a search", 0 },
    { "budget", KEY_BUDGET, "N", 0, "With --prove: units of work it may take", 0 },
    OPTION_RESULT,
    { 0 },
};

static bool take_channels(const char *argument, struct argp_state *state)
{
    if (strcmp(argument, "shared") != 0 && strcmp(argument, "apart") != 0)
        argp_error(state, "--channels: \"%s\" is neither shared nor apart", argument);
    return strcmp(argument, "shared") == 0;
}

static void check_options(const struct check_arguments *given, struct argp_state *state)
{
    const bool json = given->subject.shared.json, all = given->sending.lower == LOWER_ALL;
    if (given->profile && (json || given->sending.has_sends || given->sending.lower || given->shared))
        argp_error(state, "--json, --sends, --lower and --channels are for schedules, --profile for plans");
    if (given->profile && (subject_says_size(&given->subject) || given->subject.shared.micro_batches))
        argp_error(state, "--ranks, --chunks, --splits and --micro-batches are for a schedule's name, --profile for"
                          " plans");
    if ((given->prove || given->budget) && !given->profile)
        argp_error(state, "--prove and --budget are for plans: give --profile, the profile that FILE is a plan of");
    if (given->budget && !given->prove)
        argp_error(state, "--budget is that of the search: give --prove");
    if (given->profile && given->subject.shared.memory_bytes)
        argp_error(state, "--memory is for schedules: with --profile, a plan's own devices say what there is");
    if (json && all)
        argp_error(state, "--lower all is a table: ask for early, late or timed with --json");
}

static const struct option_field fields[] = {
    { KEY_PROFILE, OPTION_FIELD(struct check_arguments, profile) },
    { KEY_PROVE, OPTION_FIELD(struct check_arguments, prove) },
    { KEY_BUDGET, OPTION_FIELD(struct check_arguments, budget), .least = 1, .most = JSON_MAX },
    { 0 },
};

static error_t parse_check_option(int key, char *argument, struct argp_state *state)
{
    struct check_arguments *given = state->input;
    switch (key) {
    case KEY_CHANNELS:
        given->shared = take_channels(argument, state);
        break;
    case ARGP_KEY_END:
        check_options(given, state);
        return subject_option(key, argument, &given->subject, state);
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        if (sending_option(key, argument, &given->sending, state) == 0)
            return 0;
        return subject_option(key, argument, &given->subject, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_check_option,
    .args_doc = "FILE",
    .doc = "Proves that a schedule can run, or names rank, position and reason. FILE may be \"-\", standard input, or"
           " a schedule's name. With --profile, a plan's times and bytes are computed anew, by other means than the "
           "search's; with --prove its certificate is held against a search anew.\v"
           "Positions count from 0, in a rank's list with its messages. Exit code 1: it cannot run, or does not"
           " hold.\n\nExamples:\n"
           "  weir check 1f1b --ranks 4 --micro-batches 8\n"
           "  weir check schedule.json --cost 18522us,18086us,9337us,601us \\\n"
           "      --keep 1.2GiB,400MiB --memory 80GiB\n"
           "  weir check schedule.json --lower late --sends eager:1 --channels shared\n"
           "  weir check plan.json --profile profile.json --prove\n",
};

static void add_sends(const struct check_arguments *given, uint32_t capacity, struct text *text)
{
    if (capacity == 0)
        text_add(text, "rendezvous sends");
    else
        text_add(text, "%u buffered send%s per %s", capacity, capacity == 1 ? "" : "s",
                 given->shared ? "pair of ranks" : "channel");
}

static void add_asked(const struct check_arguments *given, struct text *text)
{
    if (given->sending.grouped)
        text_add(text, "messages in groups");
    else
        add_sends(given, given->sending.capacity, text);
}

// Appends what would let the schedule finish: buffers, or groups.
static void add_enough(const struct check_arguments *given, const struct check_result *result, struct text *text)
{
    if (result->capacity != CHECK_NEVER)
        add_sends(given, result->capacity, text);
    if (result->capacity != 0 && result->grouped)
        text_add(text, "%smessages in groups", result->capacity == CHECK_NEVER ? "" : ", or ");
}

static void write_fault(const struct check_fault *fault, struct text *text)
{
    char action[ACTION_SIZE];
    text_add(text, "rank %u, ", fault->rank);
    if (fault->position != SIZE_MAX)
        text_add(text, "position %zu, ", fault->position);
    text_add(text, "%s: %s\n", action_format(fault->action, action), fault->reason);
}

static void write_sharing(const struct check_arguments *given, const struct check_sharing *sharing, struct text *text)
{
    if (sharing->pairs == 0 || given->shared)
        return;
    text_add(text, "%zu of ", sharing->can);
    text_add_count(text, sharing->pairs, "pair", "pairs");
    text_add(text, " of a sender and a receiver could do with one communicator each%s",
             sharing->can == sharing->pairs ? ".\n" : "; not here: ");
    if (sharing->can < sharing->pairs)
        write_fault(&sharing->first_fault, text);
}

static void write_memory(const struct schedule *schedule, const struct check_memory *memory, struct text *text)
{
    char peak[NUMBER_SIZE], limit[NUMBER_SIZE];
    if (!memory->is_known)
        return;
    bytes_format(memory->peak_bytes, peak);
    bytes_format(memory->limit_bytes, limit);
    if (memory->peak_bytes > memory->limit_bytes)
        shown_add(text, "%s does not fit: rank %u holds up to %s of %s.", schedule->name, memory->rank, peak, limit);
    else
        text_add(text, "It fits: the tightest is rank %u, which holds up to %s of %s.", memory->rank, peak, limit);
    text_add(text, "\n");
}

static void write_faults(const struct check_result *result, struct text *text)
{
    for (size_t i = 0; i < result->fault_count; i++)
        write_fault(&result->faults[i], text);
    if (result->cycle.data)
        text_add(text, "%s\n", result->cycle.data);
}

// The findings, a line each; last what would be enough to let it run.
static void write_findings(const struct check_arguments *given, const struct schedule *schedule,
                           const struct check_result *result, struct text *text)
{
    write_faults(result, text);
    if (result->ok || result->memory.is_known) {
        shown_add(text, "%s can run: ", schedule->name);
        schedule_write_shape(schedule->ranks, schedule->stages, schedule->micro_batches, text);
        text_add(text, "; ");
        add_enough(given, result, text);
        text_add(text, " suffice%s.\n", result->capacity == 1 && !result->grouped ? "s" : "");
        write_sharing(given, &result->sharing, text);
        write_memory(schedule, &result->memory, text);
        return;
    }
    shown_add(text, "%s cannot run", schedule->name);
    const bool stands = given->sending.grouped ? !result->grouped : result->capacity > given->sending.capacity;
    if (stands && (result->capacity != CHECK_NEVER || result->grouped)) {
        text_add(text, " with ");
        add_asked(given, text);
        text_add(text, "; it comes to its end with ");
        add_enough(given, result, text);
    }
    text_add(text, ".\n");
}

// Shows progress once it takes longer than a second.
static bool prove(const struct check_arguments *given, const struct plan *plan, const struct profile *profile,
                  struct plan_proof *proof, struct error *error)
{
    struct progress progress = { .not_before_ns = clock_now_ns() + 1000000000 };
    const struct search_limits limits = { .budget = given->budget, .interrupted = command_interrupted(),
                                          .progress = plan_show_search, .self = &progress };
    const bool good = plan_prove(plan, profile, &limits, proof, error);
    progress_end(&progress);
    return good;
}

static int say_plan(const struct check_arguments *given, const struct plan_proof *proof)
{
    struct text text = { 0 };
    static const char *const words[] = { [CLAIM_HOLDS] = "", [CLAIM_OPEN] = "but its certificate is not proved: ",
                                         [CLAIM_FAILS] = "but its certificate is false: " };
    shown_add(&text, "%s: times and bytes are as %s gives them, and every stage fits; ", given->subject.file,
              given->profile);
    if (given->prove)
        text_add(&text, "%s%s.\n", words[proof->verdict], proof->why);
    else
        text_add(&text, "the certificate was not checked (--prove does).\n");
    return command_print(&text, given->subject.shared.output, proof->verdict == CLAIM_HOLDS ? 0 : ERROR_ANSWER);
}

static int check_plan(const struct check_arguments *given)
{
    struct error error = { 0 };
    struct plan_proof proof = { .verdict = CLAIM_HOLDS };
    struct profile *profile = profile_load(given->profile, &error);
    struct plan *plan = profile ? plan_load(given->subject.file, &error) : NULL;
    bool holds = false;
    if (plan) {
        holds = plan_evaluate(plan, profile, &error) && (!given->prove || prove(given, plan, profile, &proof, &error));
        if (!holds)
            error_at(&error, "%s", given->subject.file);
    }
    plan_free(plan);
    profile_free(profile);
    return holds ? say_plan(given, &proof) : command_fail(&error);
}

static bool check_as(const struct check_arguments *given, const struct priced *subject, enum receives receives,
                     struct check_result *result, struct error *error)
{
    const struct check_request request = {
        .capacity = given->sending.capacity,
        .grouped = given->sending.grouped,
        .receives = receives,
        .shared = given->shared,
        .most_in_group = NCCL_MOST_IN_GROUP,
        .limit_bytes = subject->capacity_bytes,
        .network = subject->network,
    };
    return schedule_check_as(subject->schedule, &request, result, error);
}

// --memory limits every rank; a plan's devices have their own limits.
static bool limit_memory(const struct check_arguments *given, struct priced *subject, struct error *error)
{
    if (!given->subject.shared.memory_bytes)
        return true;
    return subject_wants_costs(&given->subject, subject, error)
        && priced_limit_memory(subject, given->subject.shared.memory_bytes, error);
}

// --- one placement of receives, or all ------------------------------------------

static bool check_one(const struct check_arguments *given, const struct priced *subject, bool *ok, struct text *text,
                      struct error *error)
{
    static const enum receives places[] = { [LOWER_LATE] = RECEIVES_LATE, [LOWER_TIMED] = RECEIVES_TIMED };
    struct check_result result;
    if (!check_as(given, subject, places[given->sending.lower], &result, error))
        return false;
    *ok = result.ok;
    if (given->subject.shared.json)
        check_result_write(&result, text);
    else
        write_findings(given, subject->schedule, &result, text);
    check_result_clear(&result);
    return true;
}

static void write_row(const char *name, const struct check_result *result, struct text *text)
{
    char least[16] = "none works", sharing[48] = "-";
    if (result->capacity != CHECK_NEVER)
        snprintf(least, sizeof least, "%u", result->capacity);
    if (result->sharing.is_known)
        snprintf(sharing, sizeof sharing, "%zu of %zu", result->sharing.can, result->sharing.pairs);
    text_add(text, "%-8s  %-7s  %-20s  %-9s  %s\n", name, result->ok ? "runs" : "cannot", least,
             result->grouped ? "runs" : "cannot", sharing);
}

// A row for each way to lower, then the reasons for those that cannot run. Without costs nothing is timed.
static bool check_all(const struct check_arguments *given, const struct priced *subject, bool *ok, struct text *text,
                      struct error *error)
{
    static const char *const names[] = { "early", "late", "timed" };
    const struct schedule *schedule = subject->schedule;
    const unsigned places = schedule->costs ? 3 : 2;
    struct check_result results[3] = { { .ok = false } };
    bool good = true;
    for (unsigned i = 0; good && i < places; i++) {
        good = check_as(given, subject, (enum receives)i, &results[i], error);
        *ok |= good && results[i].ok;
    }
    if (good) {
        shown_add(text, "%s, ", schedule->name);
        schedule_write_shape(schedule->ranks, schedule->stages, schedule->micro_batches, text);
        text_add(text, ", with ");
        add_asked(given, text);
        text_add(text, "\nreceives  verdict  least buffered sends  in groups  pairs of ranks that can share a"
                       " communicator\n");
    }
    for (unsigned i = 0; good && i < places; i++)
        write_row(names[i], &results[i], text);
    for (unsigned i = 0; good && i < places; i++) {
        if (!results[i].ok)
            text_add(text, "\n%s:\n", names[i]);
        write_faults(&results[i], text);
    }
    for (unsigned i = 0; i < places; i++)
        check_result_clear(&results[i]);
    return good;
}

static int run(int count, char **arguments)
{
    struct check_arguments given = { .subject.is_judged = true };
    command_parse(&argp, count, arguments, &given);
    if (given.profile)
        return check_plan(&given);

    struct error error = { 0 };
    struct priced subject = { 0 };
    struct text text = { 0 };
    bool ok = false;
    const bool good = subject_load(&given.subject, &subject, &error)
                   && sending_strip(&given.sending, &subject, &error)
                   && limit_memory(&given, &subject, &error)
                   && (given.sending.lower == LOWER_ALL ? check_all : check_one)(&given, &subject, &ok, &text, &error);
    priced_clear(&subject);
    if (good)
        return (given.subject.shared.json ? command_write : command_print)(&text, given.subject.shared.output,
                                                                          ok ? 0 : ERROR_ANSWER);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_check = { "check", "prove that a schedule can run, or say where it cannot", run };
