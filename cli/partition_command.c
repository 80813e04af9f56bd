// weir partition PROFILE: which layers on which devices, and which are recomputed.

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan_front_options.h"
#include "cli/plan_given.h"
#include "cli/plan_model.h"
#include "cli/plan_request.h"
#include "cli/plan_stability.h"
#include "common/clock.h"
#include "common/number.h"
#include "common/progress.h"
#include "partitioner/explain/nearest.h"
#include "partitioner/integer/second_opinion.h"
#include "partitioner/orders/order_plan.h"
#include "partitioner/plan_search.h"

enum { KEY_SECOND_OPINION = KEY_OWN };

struct given {
    struct plan_options plan;
    struct given_plan by_hand;
    struct stability_options stability;
    struct model_options model;
    struct front_options front;
    bool second_opinion;
    struct shared_options output;  // --json, -o
};

static const struct argp_option options[] = {
    { "second-opinion", KEY_SECOND_OPINION, 0, 0, "Let GLPK find the least bound of small cases too, and compare", 0 },
    OPTION_JSON,
    OPTION_OUTPUT,
    { 0 },
};

// --front, which is about many plans.
static void check_front(const struct given *given, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &given->plan.arrangement;
    if (given->second_opinion || given->stability.keep || given->stability.has_noise
        || given_plan_is_asked(&given->by_hand))
        argp_error(state, "--front is about many plans; leave out what is asked of one");
    if (given->front.rank_count > 0 && (arrangement->replica_count > 0 || arrangement->device_count > 0))
        argp_error(state, "--front=RANKS takes several numbers of devices, --replicas and --devices name one; leave the"
                          " numbers of --front out");
    if (given->front.svg && strcmp(given->front.svg, "-") == 0 && (given->output.json || given->output.output))
        argp_error(state, "--svg -: standard output is for the picture alone; name a file for it");
}

// A plan that was given, which leaves nothing to be searched for but what it is compared with.
static void check_by_hand(const struct given *given, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &given->plan.arrangement;
    const char *option = given->by_hand.evaluate ? "--evaluate" : "--cuts";
    if (given->second_opinion || given->stability.keep || given->stability.has_noise || arrangement->variants)
        argp_error(state, "%s prices one plan; --keep, --noise, --variants and --second-opinion are for a search",
                   option);
    if (given->by_hand.evaluate && (arrangement->replica_count > 0 || arrangement->device_count > 0))
        argp_error(state, "--evaluate: which devices have which stages is for the plan's file to say; --replicas and"
                          " --devices go with --cuts");
}

// Another planner's model, which knows no schedules.
static void check_model(const struct given *given, struct argp_state *state)
{
    const struct plan_options *plan = &given->plan;
    if (given->front.is_asked || given->stability.keep || given->stability.has_noise)
        argp_error(state, "--front, --keep and --noise are about simulated time; leave --model out");
    if (plan->pin_count > 0 || plan->shared.chunks > 0 || plan->arrangement.devices || plan->arrangement.variants
        || given->by_hand.recompute || given->second_opinion)
        argp_error(state, "--pin, --chunks, --devices, --variants, --recompute and --second-opinion are for plans by"
                          " simulated time, not for --model");
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &given->plan;
        state->child_inputs[1] = &given->by_hand;
        state->child_inputs[2] = &given->stability;
        state->child_inputs[3] = &given->front;
        state->child_inputs[4] = &given->model;
        given->by_hand.options = &given->plan;
        given->model.options = &given->plan;
        given->model.by_hand = &given->by_hand;
        return 0;
    case KEY_SECOND_OPINION:
        given->second_opinion = true;
        return 0;
    case ARGP_KEY_END:
        if (given->model.name)
            check_model(given, state);
        else if (given->front.is_asked)
            check_front(given, state);
        else if (given_plan_is_asked(&given->by_hand))
            check_by_hand(given, state);
        return 0;
    default:
        return shared_option(key, argument, &given->output, state);
    }
}

static const struct argp_child children[] = {
    { &plan_argp, 0, NULL, 0 },
    { &given_plan_argp, 0, "A plan to price, instead of a search:", 3 },
    { &stability_argp, 0, "Plans that last:", 4 },
    { &front_argp, 0, "Time against memory, instead of one plan:", 5 },
    { &model_argp, 0, "By the busiest stage, as other planners have it:", 6 },
    { 0 },
};

static const struct argp argp = {
    .options = options,
    .parser = take,
    .children = children,
    .args_doc = "PROFILE",
    .doc = "Cuts a model into the stages of a schedule and decides what to recompute, so that an iteration"
           " takes the least simulated time and every stage fits on its device. Prints the plan as a table;"
           " -o writes the document. Ctrl-C ends the search with the best plan found so far; a second one ends it at once."
           "\vRanks are the cluster's devices in order (--ranks P: the first P). Exit code 1: nothing fits.\n\nExample:\n"
           "  weir partition profile.json --cluster \"4 devices, 16GiB, 12GB/s 5us\" \\\n"
           "      --schedule 1f1b --micro-batches 16 -o plan.json\n",
};

// What is said of the plan besides stands under the table, or on standard error where there is none.
static int print(const struct given *given, const struct plan *plan, const struct text *said)
{
    struct text table = { 0 };
    const char *more = said->length ? said->data : "";
    if (plan_output_is_document(&given->output)) {
        fprintf(stderr, "%s", *more ? more + 1 : "");  // without the empty line in front
    } else {
        plan_print(plan, &table);
        text_add(&table, "%s", more);
    }
    table.failed |= said->failed;
    return plan_output(plan, &given->output, &table, 0);
}

// GLPK gets a minute and 4 GiB. Its opinion, too, is on standard error where the other has a document.
static int print_second_opinion(const struct search_request *request, const struct plan *plan,
                                const struct shared_options *output, struct error *error)
{
    struct second_opinion opinion;
    const struct integer_limits limits = { 60, (uint64_t)4 << 30, request->interrupted, 0 };
    if (!second_opinion_ask(request, plan, limits, &opinion, error))
        return command_fail(error);
    struct text text = { 0 };
    second_opinion_print(&opinion, &text);
    second_opinion_clear(&opinion);
    if (!plan_output_is_document(output) || text.failed)
        return command_write(&text, NULL, 0);
    fprintf(stderr, "%s", text.data + 1);  // without the empty line in front
    text_clear(&text);
    return 0;
}

static void show(void *self, size_t done)
{
    progress_show(self, "nothing fits as asked; looking for what near by does, %zu requests planned", done);
}

// What near by does fit, in what is left of the time. The sentence that nothing does has been said; the answer stays
// no.
static int print_nearest(const struct search_request *request, uint64_t began_ns, struct error *error)
{
    struct progress progress = { 0 };
    struct nearest nearest;
    const uint64_t spent_ns = request->deadline_ns ? clock_now_ns() - began_ns : 0;
    if (request->deadline_ns && spent_ns >= request->deadline_ns)
        return ERROR_ANSWER;
    const struct nearest_request search = { .search = request, .deadline_ns = request->deadline_ns - spent_ns,
                                            .interrupted = request->interrupted, .progress = show,
                                            .self = &progress };
    const bool good = nearest_find(&search, &nearest, error);
    progress_end(&progress);
    if (!good)
        return command_fail(error);
    struct text text = { 0 };
    nearest_print(&nearest, &text);
    nearest_clear(&nearest);
    return command_write(&text, NULL, ERROR_ANSWER);
}

// A search that is made of several spends the budget of each.
static void show_search(void *self, const struct search_progress *now)
{
    char best[NUMBER_SIZE], bound[NUMBER_SIZE], work[64];
    snprintf(work, sizeof work, now->work <= now->budget ? "%llu of %llu units of work" : "%llu units of work",
             (unsigned long long)now->work, (unsigned long long)now->budget);
    if (now->best_ns == UINT64_MAX)
        progress_show(self, "%s", work);
    else if (now->bound_ns == 0)
        progress_show(self, "best so far %s, %s", time_format(now->best_ns, best), work);
    else
        progress_show(self, "best so far %s, none can take less than %s, %s", time_format(now->best_ns, best),
                      time_format(now->bound_ns, bound), work);
}

// With a line of progress once it takes longer than a second.
static struct plan *search(struct search_request *request, struct error *error)
{
    struct progress progress = { .not_before_ns = clock_now_ns() + 1000000000 };
    request->progress = show_search;
    request->self = &progress;
    struct plan *plan = plan_search_orders(request, error);
    progress_end(&progress);
    plan_search_blame_deadline(request->deadline_ns, error);
    request->progress = NULL;
    return plan;
}

static int run(int count, char **arguments)
{
    struct given given = { .second_opinion = false };
    command_parse(&argp, count, arguments, &given);
    if (given.model.name)
        return model_run(&given.model, &given.output);
    if (given_plan_is_asked(&given.by_hand))
        return given_plan_run(&given.by_hand, &given.output);

    struct error error = { 0 };
    struct plan_request request;
    if (!plan_request_load(&given.plan, NULL, &request, &error))
        return command_fail(&error);
    if (given.front.is_asked) {
        const int done = front_run(&given.front, &request.request, &given.output);
        plan_request_clear(&request);
        return done;
    }
    if (!stability_check(&given.stability, request.profile, &error)) {
        plan_request_clear(&request);
        return command_fail(&error);
    }
    struct error found_none = { 0 };
    struct text said = { 0 };
    const uint64_t began_ns = clock_now_ns();
    struct plan *plan = search(&request.request, &found_none);
    const bool good = stability_judge(&given.stability, &request.request, &found_none, &plan, &said, &error);
    int code = good ? print(&given, plan, &said) : command_fail(&error);
    text_clear(&said);
    if (code == 0 && given.second_opinion)
        code = print_second_opinion(&request.request, plan, &given.output, &error);
    if (code == ERROR_ANSWER && !plan && !plan_output_is_document(&given.output))
        code = print_nearest(&request.request, began_ns, &(struct error){ 0 });
    plan_free(plan);
    plan_request_clear(&request);
    return code;
}

const struct command command_partition = { "partition", "cut a model into stages, decide what to recompute", run };
