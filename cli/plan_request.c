#include "cli/plan_request.h"

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "cli/subject.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/search/search_given.h"
#include "partitioner/search/search_request.h"
#include "profiler/cluster_synopsis.h"

enum { KEY_BUDGET = KEY_OWN, KEY_DEADLINE, KEY_PIN, KEY_CUT };

static const struct argp_option options[] = {
    OPTION_CLUSTER_IN(2),
    { "schedule", KEY_SCHEDULE, "NAME|FILE", 0, "gpipe, 1f1b, pipedream, ..., or the file of an order: a schedule's"
      " document or PyTorch's CSV", 0 },
    OPTION_MICRO_BATCHES,
    { "ranks", KEY_RANKS, "P", 0, "Number of ranks: the first P devices (all)", 3 },
    OPTION_CHUNKS,
    { "segments", KEY_CUT, "N,K", 0, "Segments of a stage (auto), passes in turns (2)", 0 },
    OPTION_MEMORY,
    { "pin", KEY_PIN, "LAYER=STAGE", 0,
      "Keep a layer on a stage (from 0); once per layer", 0 },
    OPTION_OWN_ORDER,
    { "budget", KEY_BUDGET, "N", 0, "Units of work of a search (a few seconds' worth)", 4 },
    { "deadline", KEY_DEADLINE, "TIME", 0, "Time for all of it, such as 10s; plans then vary", 0 },
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_BUDGET, OPTION_FIELD(struct plan_options, budget), .least = 1, .most = JSON_MAX },
    { KEY_DEADLINE, OPTION_FIELD(struct plan_options, deadline_ns), .parse = time_parse,
      .needs = "a search needs more time than" },
    { ARGP_KEY_ARG, OPTION_FIELD(struct plan_options, profile), .what = "profile" },
    { 0 },
};

static error_t take_pin(const char *argument, struct plan_options *given, struct argp_state *state)
{
    if (!strrchr(argument, '='))
        argp_error(state, "--pin: LAYER=STAGE is wanted, such as embedding=0, not %s", argument);
    if (given->pin_count == PLAN_MOST_PINS)
        argp_error(state, "--pin: at most %d layers can be pinned", PLAN_MOST_PINS);
    given->pins[given->pin_count++] = argument;
    return 0;
}

void plan_require_all(const struct plan_options *given, struct argp_state *state)
{
    const struct shared_options *shared = &given->shared;
    const char *missing = !given->profile         ? "a profile"
                        : !shared->cluster        ? "--cluster"
                        : !shared->schedule       ? "--schedule"
                        : !shared->micro_batches && !subject_is_order(shared->schedule) ? "--micro-batches"
                                                  : NULL;
    if (missing)
        argp_error(state, "%s is missing: a profile, --cluster, --schedule and --micro-batches are needed", missing);
}

static error_t parse_plan_option(int key, char *argument, struct argp_state *state)
{
    struct plan_options *given = state->input;
    switch (key) {
    case KEY_PIN:
        return take_pin(argument, given, state);
    case KEY_CUT:
        given->has_segments = true;
        given->into = option_segments(argument, true, state);
        return 0;
    case ARGP_KEY_END:
        if (!given->is_partial)
            plan_require_all(given, state);
        else if (!given->profile)
            argp_error(state, "a profile is missing");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

const struct argp plan_argp = { .options = options, .parser = parse_plan_option };

void plan_child_inputs(struct plan_options *given, void **inputs)
{
    inputs[0] = given;
    inputs[1] = &given->storage;
    inputs[2] = &given->arrangement;
}

static bool load_files(const struct plan_options *given, const struct plan_defaults *defaults,
                       struct plan_request *request, struct error *error)
{
    const struct shared_options *shared = &given->shared;
    const bool is_order = shared->schedule && subject_is_order(shared->schedule);
    request->profile = plan_profile(given->profile, error);
    if (request->profile)
        request->cluster = shared->cluster ? cluster_load(shared->cluster, error) : defaults->cluster;
    if (request->cluster && is_order)
        request->given = subject_load_order(shared->schedule, error);
    return request->cluster && (request->given || !is_order);
}

// Fills in the request. The ranks in a document apply only together with its own cluster.
static bool fill(const struct plan_options *given, const struct plan_defaults *defaults, struct plan_request *request,
                 struct error *error)
{
    const struct shared_options *shared = &given->shared;
    struct cluster *cluster = request->cluster;
    for (size_t i = 0; shared->memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = shared->memory_bytes;
    // A given order has its own ranks and micro-batches. If others are requested, it refuses them itself later.
    const struct schedule *order = request->given ? request->given : shared->schedule ? NULL : defaults->given;
    const uint32_t ranks = order ? order->ranks : defaults->ranks && !shared->cluster ? defaults->ranks : 0;
    const uint32_t micro_batches = order ? order->micro_batches : defaults->micro_batches;
    request->request = (struct search_request){
        .profile = request->profile,
        .cluster = cluster,
        .schedule = order ? order->name : shared->schedule ? shared->schedule : defaults->schedule,
        .given = order,
        .ranks = shared->ranks ? (uint32_t)shared->ranks : ranks,
        .chunks = shared->chunks ? (uint32_t)shared->chunks : shared->schedule ? 0 : defaults->chunks,
        .micro_batches = shared->micro_batches ? (uint32_t)shared->micro_batches : micro_batches,
        .storage = defaults->storage,
        .wanted.own_order = shared->own_order,
        .limits.budget = given->budget,
        .limits.deadline_ns = given->deadline_ns,
        .limits.interrupted = command_interrupted(),
    };
    if (!search_resolve(&request->request, error))
        return false;
    struct storage *storage = &request->request.storage;
    if (!defaults->has_storage)
        *storage = (struct storage){ .optimizer = OPTIMIZER_USUAL };
    storage_options_apply(&given->storage, storage);
    if (!defaults->has_storage || given->storage.has_tied)
        storage_options_tie(&given->storage, request->profile,
                            search_generator(&request->request)->weights == WEIGHTS_FLUSH, storage);
    storage_meet_schedule(storage, search_generator(&request->request)->weights, order,
                          request->request.micro_batches);
    return true;
}

static bool says_all(const struct plan_options *given, const struct plan_defaults *defaults, struct error *error)
{
    const bool has_order = given->shared.schedule && subject_is_order(given->shared.schedule);
    const char *missing = !given->shared.cluster && !defaults->cluster               ? "--cluster"
                        : !given->shared.schedule && !defaults->schedule             ? "--schedule"
                        : !given->shared.micro_batches && !defaults->micro_batches && !has_order
                            ? "--micro-batches"
                            : NULL;
    return !missing || error_set(error, "%s is needed: %s does not say it", missing, defaults->document);
}

static bool set_pins(const struct plan_options *given, struct plan_request *request, struct error *error)
{
    request->pins = calloc(given->pin_count + 1, sizeof request->pins[0]);
    if (!request->pins)
        return error_no_memory(error, "pinned layers");
    size_t count = 0;
    for (size_t i = 0; i < given->pin_count; i++) {
        const char *name = given->pins[i], *equals = strrchr(name, '=');
        uint64_t stage;
        if (!count_parse(equals + 1, "--pin LAYER=STAGE", 0, PLAN_MOST_STAGES, &stage, error))
            return false;
        if (!search_give_pin(request->profile, name, (size_t)(equals - name), (uint32_t)stage, request->pins, &count,
                             error))
            return error_name(error, "--pin");
    }
    request->request.pinned.at = request->pins;
    request->request.pinned.count = count;
    return true;
}

// If ranks may have several stages, nobody chooses their variants.
static bool may_choose_variants(const struct search_request *request, struct error *error)
{
    const struct generator *generator = search_generator(request);
    return !request->free.variants || generator->takes_replicas
        || error_set(error, "--variants: auto chooses for stages that have a rank each, and %s may have several on one:"
                     " name the variant of each stage, or take 1f1b or gpipe", generator->name);
}

// The variant of a stage is that of all its segments.
static bool repeat_variants(struct plan_request *request, uint32_t stages, struct error *error)
{
    struct search_layout *layout = &request->request.layout;
    if (!layout->variants || layout->stages != stages)
        return true;
    request->variants = calloc(request->given->stages, sizeof request->variants[0]);
    if (!request->variants)
        return error_no_memory(error, "the variants of stages");
    for (uint32_t s = 0; s < request->given->stages; s++)
        request->variants[s] = layout->variants[s / (request->given->stages / stages)];
    layout->variants = request->variants;
    layout->stages = request->given->stages;
    return true;
}

// Cuts the order into segments, which is then a given one, as if it came from a file.
static bool cut(const struct plan_options *given, struct plan_request *request, struct error *error)
{
    struct search_request *search = &request->request;
    const struct generate_request size = { .ranks = search->ranks, .chunks = search->chunks,
                                           .micro_batches = search->micro_batches };
    if (!given->has_segments || given->into.segments == 1)
        return true;
    struct schedule *order = schedule_generate_by(search_generator(search), &size, error);
    if (!order)
        return false;
    struct schedule *segments = search_give_segments(request->profile, order, given->into, error);
    const uint32_t stages = order->stages;
    schedule_free(order);
    if (!segments)
        return error_name(error, "--segments");
    schedule_free(request->given);
    search->given = request->given = segments;
    search->schedule = segments->name;
    search->chunks = 0;
    return search_resolve(search, error) && repeat_variants(request, stages, error);
}

bool plan_request_load(const struct plan_options *given, const struct plan_defaults *given_defaults,
                       struct plan_request *request, struct error *error)
{
    const struct plan_defaults none = { .document = "nothing else" };
    const struct plan_defaults *defaults = given_defaults ? given_defaults : &none;
    *request = (struct plan_request){ .cluster_is_borrowed = !given->shared.cluster };
    if (says_all(given, defaults, error) && load_files(given, defaults, request, error)
        && fill(given, defaults, request, error) && set_pins(given, request, error)
        && arrangement_options_apply(&given->arrangement, &request->request, error)
        && may_choose_variants(&request->request, error) && cut(given, request, error))
        return true;
    error->names_place = true;  // all of these are about a file that they name, or about options
    plan_request_clear(request);
    return false;
}

void plan_request_clear(struct plan_request *request)
{
    profile_free(request->profile);
    schedule_free(request->given);
    free(request->variants);
    free(request->pins);
    if (!request->cluster_is_borrowed)
        cluster_free(request->cluster);
    *request = (struct plan_request){ .profile = NULL };
}

int plan_request_fail(const struct plan_options *given, const char *document, struct error *error)
{
    const char *cluster = given->shared.cluster;
    command_name_files(error, given->profile,
                       document ? document : cluster && !cluster_is_synopsis(cluster) ? cluster : NULL);
    return command_fail(error);
}

// Whether the request is for the plan's order, in which ranks have several stages, and whose variants are not searched.
static bool keeps_variants(const struct plan *plan, const struct search_request *request)
{
    const struct generator *generator = search_generator(request);
    const uint32_t chunks = request->chunks ? request->chunks : generator->usual_chunks;
    return !generator->takes_replicas && strcmp(generator->name, plan->schedule) == 0
        && request->ranks == plan->ranks && chunks == plan->chunks;
}

// Pins need fixed stages. With pins the request has the plan's own replicas, devices and variants, unless it gives
// others. Without pins in the request, the plan's are used. Variants of stages that share ranks are kept, too.
void plan_request_free_like(const struct plan *plan, const struct question *question, struct search_request *request)
{
    request->pinned = request->pinned.count > 0 ? request->pinned : question->request.pinned;
    const bool chooses = request->pinned.count == 0
        && !(question->request.layout.variants && keeps_variants(plan, request));
    request->free.replicas |= chooses && question->request.layout.replicas && !request->layout.replicas;
    request->free.devices |= chooses && question->request.layout.devices && !request->layout.devices;
    request->free.variants |= chooses && question->request.layout.variants && !request->layout.variants;
    if (request->free.variants)  // then `ranks` counts devices
        request->ranks = (uint32_t)plan_seat_count(plan);
    if (chooses || request->layout.replicas || request->layout.devices || request->layout.variants)
        return;
    request->layout.replicas = question->request.layout.replicas;
    request->layout.devices = question->request.layout.devices;
    request->layout.variants = question->request.layout.variants;
    request->layout.stages = question->request.layout.stages;
}

bool plan_output_is_document(const struct shared_options *output)
{
    return output->json || (output->output && strcmp(output->output, "-") == 0);
}

int plan_output_document(struct text *document, const struct shared_options *output, struct text *table, int code)
{
    struct error error = { 0 };
    if (plan_output_is_document(output) && text_ok(table, "what is said of a plan", &error)) {
        text_clear(table);
        return command_write(document, output->output, code);
    }
    if (error.kind != ERROR_NONE) {
        text_clear(document);
        text_clear(table);
        return command_fail(&error);
    }
    if (output->output) {
        const int failed = command_write(document, output->output, 0);
        if (failed) {
            text_clear(table);
            return failed;
        }
    }
    text_clear(document);
    return command_print(table, NULL, code);
}

int plan_output(const struct plan *plan, const struct shared_options *output, struct text *table, int code)
{
    struct text document = { 0 };
    plan_write(plan, &document);
    return plan_output_document(&document, output, table, code);
}
