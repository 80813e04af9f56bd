#include "cli/plan_model.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "partitioner/evaluate/handmade.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/integer/scattered.h"
#include "partitioner/objectives/bottleneck_plan.h"
#include "partitioner/objectives/loads_document.h"
#include "partitioner/plan_search.h"

enum { KEY_MODEL = KEY_OWN, KEY_STRAIGHT, KEY_ACTIVATIONS, KEY_HEED_MEMORY, KEY_CPUS, KEY_SCATTERED };

static const struct argp_option options[] = {
    { "model", KEY_MODEL, "NAME", 0,
      "pipedream, max-load (dnn-partitioning's) or tps (Piper's)", 0 },
    { "straight", KEY_STRAIGHT, 0, 0, "No replicas", 1 },
    { "activation-traffic", KEY_ACTIVATIONS, 0, 0, "pipedream: activations on their way count, too", 0 },
    { "heed-memory", KEY_HEED_MEMORY, 0, 0, "Hold stages to the model's own rule of memory", 0 },
    { "cpus", KEY_CPUS, "N", 0, "max-load: host's processors that may take layers", 0 },
    { "scattered", KEY_SCATTERED, 0, 0, "max-load: any layer on any device, by GLPK", 0 },
    { 0 },
};

static void check(const struct model_options *given, struct argp_state *state)
{
    const struct arrangement_options *arrangement = &given->options->arrangement;
    if (!given->name)
        argp_error(state, "--model is missing: pipedream, max-load or tps");
    if (!given->options->shared.cluster)
        argp_error(state, "--model needs a profile and --cluster");
    if (given->options->shared.schedule)
        argp_error(state, "--model plans for no schedule; leave --schedule out");
    if (given->counts_activations && given->model != BOTTLENECK_PIPEDREAM)
        argp_error(state, "--activation-traffic goes with --model pipedream; %s always counts it", given->name);
    if (given->cpus > 0 && given->model != BOTTLENECK_MAX_LOAD)
        argp_error(state, "--cpus goes with --model max-load; %s knows no processors of the host", given->name);
    if (given->is_scattered && (given->model != BOTTLENECK_MAX_LOAD || given_plan_is_asked(given->by_hand)))
        argp_error(state, "--scattered goes with --model max-load, and searches");
    if (arrangement->replicas && !given->by_hand->cuts)
        argp_error(state, "--replicas says how many devices each stage has; give --cuts too");
    if (arrangement->replicas && arrangement->replica_count == 0)
        argp_error(state, "--replicas auto: --model chooses them where it searches; leave --cuts or --replicas out");
}

static const struct option_field fields[] = {
    { KEY_STRAIGHT, OPTION_FIELD(struct model_options, is_straight) },
    { KEY_ACTIVATIONS, OPTION_FIELD(struct model_options, counts_activations) },
    { KEY_HEED_MEMORY, OPTION_FIELD(struct model_options, heeds_memory) },
    { KEY_CPUS, OPTION_FIELD(struct model_options, cpus), .most = 4096 },
    { KEY_SCATTERED, OPTION_FIELD(struct model_options, is_scattered) },
    { 0 },
};

static error_t parse_objective_option(int key, char *argument, struct argp_state *state)
{
    struct model_options *given = state->input;
    switch (key) {
    case KEY_MODEL:
        given->model = (enum bottleneck_model)option_name(argument, "--model", bottleneck_names, state);
        given->name = argument;
        return 0;
    case ARGP_KEY_END:
        check(given, state);
        return 0;
    default:
        return option_take(options, fields, key, argument, given, state);
    }
}

const struct argp model_argp = { .options = options, .parser = parse_objective_option };

void model_check(const struct model_options *given, struct argp_state *state)
{
    const struct plan_options *plan = given->options;
    if (plan->pin_count > 0 || plan->shared.own_order || plan->shared.chunks > 0 || plan->has_segments
        || plan->arrangement.devices || plan->arrangement.variants || given->by_hand->recompute)
        argp_error(state, "--pin, --own-order, --chunks, --segments, --devices, --variants and --recompute are for"
                          " plans by simulated time, not for --model");
}

// --- a plan that was given ------------------------------------------------------------

// Returns how many numbers there are, or 0 with the error.
static size_t read_counts(const char *text, const char *option, uint32_t *counts, size_t most, struct error *error)
{
    struct json_document *document = handmade_counts(text, option, error);
    if (!document)
        return 0;
    struct json list = json_root(document), item;
    json_item_array(&list);
    const size_t count = json_count(&list);
    if (list.node && (count == 0 || count > most))
        json_refuse(&list, "holds %zu numbers, of 1 to %zu", count, most);
    for (size_t i = 0; i < count && i < most && json_next(&list, &item); i++)
        counts[i] = (uint32_t)json_item_u64(&item, 1, 1 << 20);
    const bool good = json_ok(document, error);
    json_free(document);
    return good ? count : 0;
}

static struct bottleneck_result *make_counted(const struct model_options *given,
                                              const struct bottleneck_request *request, uint32_t *layers,
                                              uint32_t *replicas, struct error *error)
{
    const char *devices = given->options->arrangement.replicas;
    const size_t most = request->profile->layer_count;
    const size_t stages = read_counts(given->by_hand->cuts, "--cuts", layers, most, error);
    const size_t counts =
        stages && devices ? read_counts(devices, "--replicas", replicas, most, error) : stages;
    uint64_t sum = 0;
    for (size_t s = 0; s < stages; s++)
        sum += layers[s];
    if (counts > 0 && counts != stages)
        error_named(error, "--replicas has %zu numbers, but --cuts has %zu", counts, stages);
    else if (counts > 0 && sum != most)
        error_named(error, "--cuts: the stages hold %llu layers, the profile %zu", (unsigned long long)sum, most);
    struct bottleneck_result *plan = counts == stages && counts > 0 && sum == most
                                       ? bottleneck_create(request, stages, error) : NULL;
    for (size_t s = 0; plan && s < stages; s++) {
        plan->stages[s].first = s ? plan->stages[s - 1].end : 0;
        plan->stages[s].end = plan->stages[s].first + layers[s];
        plan->stages[s].replicas = devices ? replicas[s] : 1;
    }
    return plan;
}

static struct bottleneck_result *make_given(const struct model_options *given, struct bottleneck_request *request,
                                            struct error *error)
{
    if (given->by_hand->plan)
        return loads_load(request, given->by_hand->plan, error);
    const size_t layers = request->profile->layer_count;
    uint32_t *counts = calloc(2 * layers + 1, sizeof counts[0]);
    struct bottleneck_result *result = NULL;
    if (counts)
        result = make_counted(given, request, counts, counts + layers, error);
    else
        error_no_memory(error, "a plan");
    free(counts);
    if (!result || bottleneck_fill_servers(request, result, error))
        return result;
    bottleneck_free(result);
    return NULL;
}

// Searches, and ends the line of progress.
static struct bottleneck_result *search(const struct bottleneck_request *request, struct error *error)
{
    struct bottleneck_result *result = bottleneck_search(request, error);
    progress_end(request->listener.self);
    return result;
}

// --- what is printed and written -------------------------------------------------------

// Prints the table, which is freed, and writes the document if it is requested.
static int print_result(const struct model_options *given, const struct bottleneck_request *request,
                        const struct bottleneck_result *result, const struct storage *storage,
                        const struct shared_options *output, struct text *table, struct error *error)
{
    if (!output->json && !output->output)
        return command_print(table, NULL, 0);
    if (!bottleneck_is_plan(result)) {
        struct text document = { 0 };
        loads_write(request, result, &document);
        return plan_output_document(&document, output, table, 0);
    }
    struct plan_excess excess;
    struct plan *plan = bottleneck_plan(request, result, storage, error);
    if (!plan || !plan_find_excess(plan, plan->cluster, &excess, error)) {
        plan_free(plan);
        text_clear(table);
        return plan_request_fail(given->options, given->by_hand->plan, error);
    }
    if (excess.lacks_bytes > 0) {
        struct text says = { 0 };
        plan_say_excess(plan, &excess, &says);
        if (text_ok(&says, "what is said of a plan", error))
            command_say("the model does not look at it, but the plan does not fit: %s", says.data);
        table->failed |= says.failed;
        text_clear(&says);
    }
    const int code = plan_output(plan, output, table, 0);
    plan_free(plan);
    return code;
}

// Prices a given plan, and says how far it is from the best.
static int run_given(const struct model_options *given, struct bottleneck_request *request,
                     const struct storage *storage, const struct shared_options *output, struct error *error)
{
    struct bottleneck_result *plan = make_given(given, request, error);
    if (!plan || !bottleneck_value(request, plan, error)) {
        bottleneck_free(plan);
        return plan_request_fail(given->options, given->by_hand->plan, error);
    }
    struct error found_none = { 0 };
    struct bottleneck_result *best = search(request, &found_none);
    int code;
    if (!best && found_none.kind == ERROR_MACHINE) {
        code = plan_request_fail(given->options, given->by_hand->plan, &found_none);
    } else {
        struct text table = { 0 };
        bottleneck_certify_by(plan, best);
        bottleneck_print_given(request, plan, best, &table);
        code = print_result(given, request, plan, storage, output, &table, error);
    }
    bottleneck_free(best);
    bottleneck_free(plan);
    return code;
}

static int run_search(const struct model_options *given, const struct bottleneck_request *request,
                      const struct storage *storage, const struct shared_options *output, struct error *error)
{
    struct bottleneck_result *result = search(request, error);
    plan_search_blame_deadline(error);
    if (!result)
        return plan_request_fail(given->options, NULL, error);
    struct text table = { 0 };
    bottleneck_print(request, result, &table);
    const int code = print_result(given, request, result, storage, output, &table, error);
    bottleneck_free(result);
    return code;
}

static void show(void *self, double best_ns, double bound_ns)
{
    char best[NUMBER_SIZE], bound[NUMBER_SIZE];
    time_format((uint64_t)bound_ns, bound);
    if (isinf(best_ns))
        progress_show(self, "no plan so far, none can load less than %s", bound);
    else
        progress_show(self, "best so far %s, none can load less than %s", time_format((uint64_t)best_ns, best), bound);
}

static struct bottleneck_request make_request(const struct model_options *given, const struct plan_request *loaded,
                                              struct progress *progress)
{
    const struct shared_options *shared = &given->options->shared;
    return (struct bottleneck_request){
        .model = given->model,
        .profile = loaded->profile,
        .cluster = loaded->cluster,
        .machines = (uint32_t)shared->ranks,
        .micro_batches = (uint32_t)shared->micro_batches,
        .heed_memory = given->heeds_memory,
        .is_straight = given->is_straight,
        .may_use_fewer = given->options->arrangement.fewer,
        .counts_activations = given->counts_activations,
        .cpus = (uint32_t)given->cpus,
        .budget = given->options->budget,
        .until_ns = given->options->deadline_ns ? add_clamped(clock_now_ns(), given->options->deadline_ns) : 0,
        .interrupted = loaded->request.limits.interrupted,
        .listener = { show, progress },
    };
}

// GLPK gets 4 GiB and a minute, or what the search for its start leaves of --deadline.
static int run_scattered(const struct model_options *given, const struct bottleneck_request *request,
                         const struct shared_options *output, struct error *error)
{
    if (output->json || output->output) {
        error_named(error, "--scattered prints a table only: a plan document has stages, which such layers do not"
                           " make");
        return command_fail(error);
    }
    const uint64_t seconds = given->options->deadline_ns / 1000000000 + (given->options->deadline_ns % 1000000000 > 0);
    const struct integer_limits limits = { seconds ? seconds : 60, (uint64_t)4 << 30, request->interrupted,
                                           request->until_ns };
    struct scattered scattered;
    const bool good = scattered_search(request, limits, &scattered, error);
    progress_end(request->listener.self);
    plan_search_blame_deadline(error);
    if (!good)
        return plan_request_fail(given->options, NULL, error);
    struct text table = { 0 };
    scattered_print(request, &scattered, &table);
    scattered_clear(&scattered);
    return command_print(&table, NULL, 0);
}

int model_run(const struct model_options *given, const struct shared_options *output)
{
    struct error error = { 0 };
    struct plan_request loaded;
    // The models have no schedules; their plans run by PipeDream's.
    const struct plan_defaults defaults = { .document = "--model", .schedule = "pipedream", .micro_batches = 1 };
    if (!plan_request_load(given->options, &defaults, &loaded, &error))
        return plan_request_fail(given->options, NULL, &error);
    // Shows progress once it takes longer than a second.
    struct progress progress = { .not_before_ns = clock_now_ns() + 1000000000 };
    struct bottleneck_request request = make_request(given, &loaded, &progress);
    const struct storage *storage = &loaded.request.storage;
    const int code = given->is_scattered                  ? run_scattered(given, &request, output, &error)
                   : given_plan_is_asked(given->by_hand) ? run_given(given, &request, storage, output, &error)
                                                         : run_search(given, &request, storage, output, &error);
    plan_request_clear(&loaded);
    return code;
}
