#include "cli/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/predict.h"
#include "schedules/csv.h"

// --- arguments ------------------------------------------------------------------

// Takes `count` quantities apart at their commas.
static void take_list(const char *argument, const char *name, size_t count, uint64_t *values,
                      bool (*parse)(const char *text, uint64_t *value, struct error *error), struct argp_state *state)
{
    char copy[256];
    size_t found = 0;
    snprintf(copy, sizeof copy, "%s", argument);
    if (strlen(argument) >= sizeof copy)
        argp_error(state, "%s: is longer than %zu letters", name, sizeof copy - 1);
    for (char *at = copy; at; found++) {
        struct error error = { 0 };
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (found < count && !parse(at, &values[found], &error))
            argp_error(state, "%s: %s", name, error.text);
        at = comma;
    }
    if (found != count)
        argp_error(state, "%s: takes %zu quantities, not %zu", name, count, found);
}

error_t subject_option(int key, char *argument, struct subject_options *options, struct argp_state *state)
{
    switch (key) {
    case KEY_COST:
        options->has_cost = true;
        take_list(argument, "--cost", 4, options->cost_ns, time_parse, state);
        break;
    case KEY_KEEP:
        options->has_keep = true;
        take_list(argument, "--keep", 2, options->keep_bytes, bytes_parse, state);
        break;
    case ARGP_KEY_ARG:
        option_argument(&options->file, argument, "plan or schedule", state);
        break;
    case ARGP_KEY_END:
        if (!options->file)
            argp_error(state, "a plan's or a schedule's file is needed");
        break;
    default:
        return shared_option(key, argument, &options->shared, state);
    }
    return 0;
}

// --- schedules ------------------------------------------------------------------

static bool set_costs(const struct subject_options *options, struct schedule *schedule, struct error *error)
{
    if (!options->has_cost && !options->has_keep)
        return true;
    if (!schedule->costs)
        schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    if (!schedule->costs)
        return error_no_memory(error, "the costs of a schedule");
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        struct cost_row *row = &schedule->costs[stage];
        if (options->has_cost) {
            row->forward_ns = options->cost_ns[0];
            row->backward_input_ns = options->cost_ns[1];
            row->backward_weight_ns = options->cost_ns[2];
            row->backward_ns = add_clamped(options->cost_ns[1], options->cost_ns[2]);
        }
        if (options->has_keep) {
            row->kept_forward_bytes = options->keep_bytes[0];
            row->kept_weight_bytes = options->keep_bytes[1];
        }
    }
    return true;
}

static struct network *network_of_cluster(const char *name, uint32_t ranks, struct error *error)
{
    struct cluster *cluster = cluster_load(name, error);
    struct network *network = NULL;
    uint32_t *devices = calloc(ranks, sizeof *devices);
    for (uint32_t rank = 0; devices && rank < ranks; rank++)
        devices[rank] = rank;
    if (cluster && !devices)
        error_no_memory(error, "the links of a cluster");
    else if (cluster && cluster->device_count < ranks)
        error_set(error, "the cluster has %zu devices, and the schedule %u ranks", cluster->device_count, ranks);
    else if (cluster)
        network = cluster_network(cluster, devices, ranks, error);
    free(devices);
    cluster_free(cluster);
    return network;
}

static struct schedule *read_csv(const char *text, size_t length, const char *name, struct error *error)
{
    size_t passed_over;
    struct schedule *schedule = csv_read(text, length, strcmp(name, "-") == 0 ? "standard input" : name, &passed_over,
                                         error);
    if (passed_over)
        fprintf(stderr, "weir: %s: %zu cell%s of UNSHARD, RESHARD or WAIT passed over\n", name, passed_over,
                passed_over == 1 ? "" : "s");
    return schedule;
}

static bool read_schedule(const struct subject_options *options, const char *text, size_t length,
                          struct subject *subject, struct error *error)
{
    if (csv_is_likely(text, length))
        subject->schedule = read_csv(text, length, options->file, error);
    else
        subject->schedule = schedule_read(text, length, options->file, error);
    if (!subject->schedule || !set_costs(options, subject->schedule, error))
        return false;
    if (options->shared.cluster)
        subject->network = network_of_cluster(options->shared.cluster, subject->schedule->ranks, error);
    else if (options->has_cost)
        subject->network =
            network_uniform(subject->schedule->ranks, (struct link){ .latency_ns = options->cost_ns[3] }, error);
    return subject->network || (!options->shared.cluster && !options->has_cost);
}

// --- plans ----------------------------------------------------------------------

static bool change_schedule(struct plan *plan, const char *name, struct error *error)
{
    const struct generator *generator = generator_find(name, error);
    if (!generator)
        return false;
    snprintf(plan->schedule, sizeof plan->schedule, "%s", name);
    plan->weights = generator->weights;
    return true;
}

static bool note_capacities(const struct plan *plan, struct subject *subject, struct error *error)
{
    subject->capacity_bytes = calloc(plan->ranks, sizeof subject->capacity_bytes[0]);
    if (!subject->capacity_bytes)
        return error_no_memory(error, "a plan");
    struct placement *placement = plan_placement(plan, error);
    uint32_t *devices = placement ? plan_devices(plan, placement, error) : NULL;
    for (uint32_t r = 0; devices && r < plan->ranks; r++)
        subject->capacity_bytes[r] = plan->cluster->devices[devices[r]].memory_bytes;
    const bool good = devices != NULL;
    free(devices);
    placement_free(placement);
    return good;
}

static bool read_plan(const struct subject_options *options, const char *text, size_t length, struct subject *subject,
                      struct error *error)
{
    if (options->has_cost || options->has_keep || options->shared.cluster)
        return error_set(error, "%s: is a plan, which brings its own costs and cluster: leave --cost, --keep and "
                                "--cluster out", options->file);
    struct plan *plan = plan_read(text, length, options->file, error);
    if (!plan)
        return false;
    if (!options->shared.schedule && !options->shared.micro_batches)
        subject->stated_ns = plan->iteration_ns;
    bool good = !options->shared.schedule || change_schedule(plan, options->shared.schedule, error);
    if (options->shared.micro_batches)
        plan->micro_batches = (uint32_t)options->shared.micro_batches;
    subject->network = good ? plan_network(plan, error) : NULL;
    subject->schedule = subject->network ? plan_schedule(plan, plan->micro_batches, true, error) : NULL;
    good = subject->schedule
        && (plan->weights == WEIGHTS_FLUSH || plan_time(plan, subject->network, &subject->steady_ns, error));
    good = good && note_capacities(plan, subject, error);
    plan_free(plan);
    return good;
}

// --- either ---------------------------------------------------------------------

// The document says itself what it is. What is no document at all is left to the
// schedule's reader to refuse.
static bool is_plan(const char *text, size_t length)
{
    struct error ignored = { 0 };
    struct json_document *document = json_parse(text, length, "", &ignored);
    if (!document)
        return false;
    struct json root = json_root(document);
    const bool plan = strcmp(json_string(&root, "format"), "weir.plan") == 0;
    json_free(document);
    return plan;
}

bool subject_load(const struct subject_options *options, struct subject *subject, struct error *error)
{
    size_t length;
    char *text = text_load(options->file, &length, error);
    if (!text)
        return false;
    bool good;
    if (is_plan(text, length))
        good = read_plan(options, text, length, subject, error);
    else if (options->shared.micro_batches)
        good = error_set(error, "%s: is a schedule, whose micro-batches are its own: leave --micro-batches out",
                         options->file);
    else if (options->shared.schedule)
        good = error_set(error, "%s: is a schedule itself: leave --schedule out", options->file);
    else
        good = read_schedule(options, text, length, subject, error);
    free(text);
    return good;
}

bool subject_wants_costs(const struct subject_options *options, const struct subject *subject, struct error *error)
{
    return subject->schedule->costs || error_set(error, "%s: has no costs: give --cost F,I,W,C", options->file);
}

void subject_clear(struct subject *subject)
{
    free(subject->capacity_bytes);
    network_free(subject->network);
    schedule_free(subject->schedule);
    *subject = (struct subject){ .schedule = NULL };
}
