#include "cli/plan_given.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "common/number.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/handmade.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"

enum { KEY_PLAN = KEY_OWN, KEY_CUTS, KEY_RECOMPUTE };

static const struct argp_option options[] = {
    { "plan", KEY_PLAN, "FILE", 0, "The plan", 0 },
    { "cuts", KEY_CUTS, "[N,...]", 0, "Layers on each stage, in order, such as [9,9,10]", 0 },
    { "recompute", KEY_RECOMPUTE, "[K,...]", 0, "With --cuts: first layers of each to run again", 0 },
    { 0 },
};

static void complete(const struct given_plan *given, struct argp_state *state)
{
    if (given->plan && given->cuts)
        argp_error(state, "--plan or --cuts, not both");
    if (given->recompute && !given->cuts)
        argp_error(state, "--recompute says how many layers of each stage are run again; give --cuts too");
    if (given->is_wanted && !given_plan_is_asked(given))
        argp_error(state, "a plan is missing: --plan FILE or --cuts [N,...], layers on each stage");
}

static error_t parse_given_plan_option(int key, char *argument, struct argp_state *state)
{
    struct given_plan *given = state->input;
    switch (key) {
    case KEY_PLAN:
        given->plan = argument;
        given->options->is_partial = true;
        return 0;
    case KEY_CUTS:
        given->cuts = argument;
        return 0;
    case KEY_RECOMPUTE:
        given->recompute = argument;
        return 0;
    case ARGP_KEY_END:
        complete(given, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp given_plan_argp = { .options = options, .parser = parse_given_plan_option };

bool given_plan_is_asked(const struct given_plan *given)
{
    return given->plan || given->cuts;
}

void given_plan_check(const struct given_plan *given, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &given->options->arrangement;
    if (arrangement->variants)
        argp_error(state, "%s prices one plan; --variants is for a search", given->plan ? "--plan" : "--cuts");
    if (given->plan && (arrangement->replica_count > 0 || arrangement->device_count > 0))
        argp_error(state, "--plan: which devices have which stages is for the plan's file to say; --replicas and"
                          " --devices go with --cuts");
}

static struct plan_defaults defaults_of(const struct given_plan *given, const struct handmade *handmade)
{
    return (struct plan_defaults){
        .document = given->plan,
        .cluster = handmade->cluster,
        .schedule = handmade->schedule[0] ? handmade->schedule : NULL,
        .given = handmade->whole ? handmade->whole->given : NULL,
        .ranks = handmade->ranks,
        .chunks = handmade->chunks,
        .micro_batches = handmade->micro_batches,
        .has_storage = handmade->has_storage,
        .storage = handmade->storage,
    };
}

// --- what is said of it ---------------------------------------------------------------

static double percent_slower(uint64_t slow, uint64_t fast)
{
    return fast > 0 ? 100 * ((double)slow / (double)fast - 1) : 0;
}

// What a given plan is compared with: the best plan with the same freedom, NULL if nothing fits. The search was free
// in what the given plan has chosen.
struct compared {
    struct plan *best;
    struct search_freedom free;
    bool own_order;
};

static void say_found(const struct compared *with, struct text *text)
{
    const struct search_freedom free = with->free;
    const char *const names[] = { free.replicas ? "replicas" : NULL, free.devices ? "devices" : NULL,
                                  free.variants ? "variants" : NULL };
    const char *between = " with ";
    text_add(text, "the plan found");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i]) {
            text_add(text, "%s%s", between, names[i]);
            between = " and ";
        }
    text_add(text, strcmp(between, " and ") == 0 ? " of its own choice" : "");
    text_add(text, with->own_order ? " in the profile's own order of layers" : "");
}

static void say_distance(const struct plan *plan, const struct compared *with, bool fits, struct text *text)
{
    char time[NUMBER_SIZE];
    const struct plan *best = with->best;
    const uint64_t plan_ns = plan->iteration_ns, other = best->iteration_ns;
    const char *claim = best->certificate.proved ? ", which is proved" : "";
    time_format(other, time);
    const bool is_as_quick = plan_ns == other && fits;
    if (is_as_quick)
        text_add(text, "As quick as ");
    else
        text_add(text, "%.1f %% %s than ",
                 plan_ns > other ? percent_slower(plan_ns, other) : percent_slower(other, plan_ns),
                 plan_ns > other ? "slower" : "quicker");
    say_found(with, text);
    if (is_as_quick)
        text_add(text, "%s.\n", claim);
    else if (plan_ns > other)
        text_add(text, ", which %s %s%s.\n", fits ? "takes" : "fits and takes", time,
                 best->certificate.proved ? ": proved" : "");
    else
        text_add(text, ", which takes %s%s.\n", time, fits ? "" : " and fits");
}

static int no_memory(void)
{
    struct error error = { 0 };
    error_no_memory(&error, "what is said of a plan");
    return command_fail(&error);
}

// Prints the plan's table as the answer; what is wrong with it, and what differs, goes to standard error.
static int print(const struct plan *plan, const struct compared *with, const struct plan_excess *excess,
                 struct text *differences, const struct shared_options *output)
{
    const bool fits = excess->lacks_bytes == 0;
    struct text table = { 0 }, refusal = { 0 };
    if (!plan_output_is_document(output)) {
        plan_print(plan, &table);
        if (with->best)
            say_distance(plan, with, fits, &table);
    }
    if (!fits)
        plan_say_excess(plan, excess, &refusal);
    if (refusal.failed || differences->failed)
        return no_memory();
    if (differences->length)
        fprintf(stderr, "%s", differences->data);
    const int code = plan_output(plan, output, &table, fits ? 0 : ERROR_ANSWER);
    if (!fits && code == ERROR_ANSWER)
        command_say("the plan does not fit: %s", refusal.data);
    text_clear(&refusal);
    return code;
}

// True also if nothing fits; false for any other failure.
static bool find_best(const struct plan *plan, const struct search_request *request, struct compared *with,
                      struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    struct search_request quick = *request;
    struct question question;
    if (!question_of(plan, request->profile, &question, error))
        return false;
    quick.found.shortage = &shortage;
    quick.wanted.never_worse = true;
    plan_request_free_like(plan, &question, &quick);
    *with = (struct compared){ plan_search(&quick, &why), quick.free, quick.wanted.own_order };
    question_clear(&question);
    return with->best || why.kind == ERROR_ANSWER || error_hand_on(error, &why);
}

static int judge(const struct given_plan *given, struct plan *plan, const struct search_request *request,
                 struct text *differences, const struct shared_options *output)
{
    struct error error = { 0 };
    struct plan_excess excess;
    struct compared with = { .best = NULL };
    if (!plan_find_excess(plan, plan->cluster, &excess, &error) || !find_best(plan, request, &with, &error))
        return plan_request_fail(given->options, given->plan, &error);
    const bool fits = excess.lacks_bytes == 0;
    const struct certificate none = { .by = BY_ENUMERATION };
    plan_certify_by(plan, with.best ? &with.best->certificate : &none, fits);
    int code;
    if (fits && !plan_evaluate(plan, request->profile, &error)) {
        error_at(&error, "the prices of the plan do not hold, which is a fault of ours");
        error.kind = ERROR_MACHINE;
        code = command_fail(&error);
    } else {
        code = print(plan, &with, &excess, differences, output);
    }
    plan_free(with.best);
    return code;
}

// --- the whole --------------------------------------------------------------------------

// Whether a whole plan is priced with the options with which it was made. Otherwise differences are to be expected.
static bool is_as_it_was(const struct plan_options *given_options)
{
    const struct shared_options *given = &given_options->shared;
    return !given->cluster && !given->schedule && !given->ranks && !given->chunks && !given->micro_batches
        && !given->memory_bytes && !storage_options_any(&given_options->storage);
}

// Says so if the profile is another one. This may be intended, for example with a newer profile of the same model.
static bool say_profile(const struct given_plan *given, const struct handmade *handmade, const struct profile *profile,
                        struct error *error)
{
    return !handmade->whole
        || plan_use_with(handmade->whole, given->plan, profile, given->options->profile,
                         BELONGS_BY_MODEL | BELONGS_BY_PROFILE, 0, error);
}

static int run_file(const struct given_plan *given, const struct shared_options *output)
{
    struct error error = { 0 };
    struct plan_request request = { 0 };
    struct text differences = { 0 };
    struct plan *plan = NULL;
    struct handmade *handmade = handmade_load(given->plan, &error);
    if (handmade) {
        const struct plan_defaults defaults = defaults_of(given, handmade);
        if (plan_request_load(given->options, &defaults, &request, &error)
            && say_profile(given, handmade, request.request.profile, &error))
            plan = handmade_plan(handmade, &request.request, &error);
        if (!plan && handmade->whole && error.kind == ERROR_INPUT)
            command_name_files(&error, given->plan, given->options->profile);
        else if (!plan && handmade->whole)
            error_at(&error, "%s", given->plan);
    }
    bool good = plan != NULL;
    if (good && (!handmade->whole || is_as_it_was(given->options)))
        good = handmade_compare(handmade, plan, &differences, &error);
    const int code = good ? judge(given, plan, &request.request, &differences, output)
                          : plan_request_fail(given->options, given->plan, &error);
    text_clear(&differences);
    plan_free(plan);
    plan_request_clear(&request);
    handmade_free(handmade);
    return code;
}

static int run_counts(const struct given_plan *given, const struct shared_options *output)
{
    struct error error = { 0 };
    struct plan_request request;
    if (!plan_request_load(given->options, NULL, &request, &error))
        return plan_request_fail(given->options, NULL, &error);
    struct text differences = { 0 };
    struct plan *plan = handmade_count(given->cuts, given->recompute, &request.request, &error);
    const int code = plan ? judge(given, plan, &request.request, &differences, output)
                          : plan_request_fail(given->options, given->plan, &error);
    plan_free(plan);
    plan_request_clear(&request);
    return code;
}

int given_plan_run(const struct given_plan *given, const struct shared_options *output)
{
    return given->plan ? run_file(given, output) : run_counts(given, output);
}
