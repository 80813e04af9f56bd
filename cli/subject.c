#include "cli/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "common/alike.h"
#include "common/json.h"
#include "common/number.h"
#include "profiler/import.h"
#include "schedules/check.h"
#include "schedules/costs.h"
#include "schedules/csv.h"
#include "schedules/generators/generate.h"
#include "schedules/generators/given_order.h"

// --- arguments ------------------------------------------------------------------

// "A,B"
static struct kept_bytes take_keep(const char *argument, struct argp_state *state)
{
    struct error error = { 0 };
    struct kept_bytes kept = { .has_forward = true, .has_weight = true };
    char first[64];
    const char *comma = strchr(argument, ',');
    const size_t length = comma ? (size_t)(comma - argument) : 0;
    if (!comma || length >= sizeof first || strchr(comma + 1, ','))
        argp_error(state, "--keep: takes 2 quantities, A,B, not \"%s\"", argument);
    snprintf(first, sizeof first, "%.*s", (int)length, argument);
    if (!bytes_parse(first, &kept.forward_bytes, &error) || !bytes_parse(comma + 1, &kept.weight_bytes, &error))
        argp_error(state, "--keep: %s", error.text);
    return kept;
}

bool subject_says_size(const struct subject_options *options)
{
    return options->shared.ranks || options->shared.chunks || options->splits;
}

// A name after --schedule also counts as FILE's name if no FILE is given.
static void take_name(struct subject_options *options)
{
    const char *schedule = options->shared.schedule;
    if (options->file || !schedule || !subject_says_size(options) || subject_is_order(schedule))
        return;
    options->file = schedule;
    options->shared.schedule = NULL;
}

struct segmenting option_segments(const char *argument, bool may_be_auto, struct argp_state *state)
{
    static const char automatic[] = "auto";
    const size_t word = strcspn(argument, ",");
    const bool is_auto = may_be_auto && word == strlen(automatic) && strncmp(argument, automatic, word) == 0;
    uint32_t numbers[2] = { 0 };
    if (!is_auto)
        option_counts(argument, "--segments", 1, MOST_SEGMENTS, numbers, 2, state);
    else if (argument[word])
        numbers[1] = (uint32_t)option_count(argument + word + 1, "--segments", 1, MOST_SEGMENTS, state);
    return (struct segmenting){ .segments = numbers[0], .open = numbers[1] };
}

error_t subject_option(int key, char *argument, struct subject_options *options, struct argp_state *state)
{
    switch (key) {
    case KEY_COST:
        options->cost = argument;
        break;
    case KEY_OVERLAPPED:
        options->overlapped = argument;
        break;
    case KEY_KEEP:
        options->kept = take_keep(argument, state);
        break;
    case KEY_NAMED_SPLITS:
        options->splits = (uint32_t)option_count(argument, "--splits", 1, MOST_SPLITS, state);
        break;
    case KEY_SEGMENTS:
        options->into = option_segments(argument, false, state);
        break;
    case ARGP_KEY_ARG:
        option_argument(&options->file, argument, "plan or schedule", state);
        break;
    case ARGP_KEY_END:
        take_name(options);
        if (!options->file)
            argp_error(state, "a plan's or a schedule's file is needed, or a schedule's name");
        break;
    default:
        return shared_option(key, argument, &options->shared, state);
    }
    return 0;
}

static const char *name_of(const char *file)
{
    return strcmp(file, "-") == 0 ? "standard input" : file;
}

// --- schedules ------------------------------------------------------------------

// The document itself says what it is. Text that is no document is left to the schedule's reader, which refuses it.
// The only error here is a lack of memory.
static bool is_plan(const char *text, size_t length, const char *name, struct error *error)
{
    struct error why = { 0 };
    struct json_document *document = json_parse(text, length, name, &why);
    if (!document)
        return why.kind == ERROR_MACHINE && error_hand_on(error, &why);
    struct json root = json_root(document);
    const bool plan = strcmp(json_string(&root, "format"), "weir.plan") == 0;
    if (!json_ok(document, &why) && why.kind == ERROR_MACHINE)
        error_hand_on(error, &why);
    json_free(document);
    return plan;
}

// The costs of a plan's stages.
static bool take_plans_costs(const char *text, size_t length, const char *name, struct costs *costs,
                             struct error *error)
{
    struct plan *plan = plan_read(text, length, name, error);
    costs->rows = plan ? calloc(plan->stage_count, sizeof *costs->rows) : NULL;
    if (plan && !costs->rows)
        error_no_memory(error, "the costs of a plan");
    costs->count = costs->rows ? (uint32_t)plan->stage_count : 0;
    for (uint32_t stage = 0; stage < costs->count; stage++)
        costs->rows[stage] = plan->stages[stage].costs;
    plan_free(plan);
    return costs->rows != NULL;
}

static bool load_costs(const struct subject_options *options, struct costs *costs, struct error *error)
{
    if (strchr(options->cost, ','))
        return costs_parse(options->cost, options->overlapped, costs, error) || error_name(error, "--cost");
    if (options->overlapped)
        return error_named(error, "--overlapped goes with --cost F,I,W,C; a document says overlapped_ns itself");
    size_t length;
    char *text = text_load(options->cost, &length, error);
    if (!text)
        return error_at(error, "--cost");
    const bool good = csv_is_likely(text, length)
                        ? error_named(error, "--cost: %s: is PyTorch's CSV, which has no costs", options->cost)
                    : is_plan(text, length, options->cost, error)
                        ? take_plans_costs(text, length, options->cost, costs, error)
                        : error->kind == ERROR_NONE && costs_read(text, length, options->cost, costs, error);
    free(text);
    return good;
}

// Loads a row of costs for each stage.
static bool spread_costs(const struct subject_options *options, uint32_t stages, struct costs *costs,
                         struct error *error)
{
    return load_costs(options, costs, error)
        && (costs_spread(costs, stages, error) || error_name(error, "%s", options->cost));
}

bool subject_costs(const struct subject_options *options, uint32_t stages, struct costs *costs, struct error *error)
{
    *costs = (struct costs){ .rows = NULL };
    if (!options->cost)
        return error_named(error, "--cost is needed: F,I,W,C or a document with costs");
    if (spread_costs(options, stages, costs, error)) {
        costs_keep(costs->rows, stages, &options->kept);
        return true;
    }
    costs_clear(costs);
    return false;
}

static struct schedule *read_csv(const char *text, size_t length, const char *name, struct error *error)
{
    size_t passed_over;
    struct schedule *schedule = csv_read(text, length, name, &passed_over, error);
    if (passed_over)
        command_say("%s: %zu cell%s of UNSHARD, RESHARD or WAIT passed over", name, passed_over,
                    passed_over == 1 ? "" : "s");
    return schedule;
}

// Sets costs and cluster; options override what the schedule says.
static bool set_prices(const struct subject_options *options, struct priced *subject, struct error *error)
{
    struct costs costs = { .rows = NULL };
    if (!options->cost && options->overlapped)
        return error_named(error, "--overlapped goes with --cost F,I,W,C");
    bool good = !options->cost || spread_costs(options, subject->schedule->stages, &costs, error);
    struct cluster *cluster = good && options->shared.cluster ? cluster_load(options->shared.cluster, error) : NULL;
    const struct pricing pricing = { options->cost ? &costs : NULL, options->kept, cluster };
    good = good && (cluster || !options->shared.cluster) && priced_set(subject, &pricing, error);
    cluster_free(cluster);
    costs_clear(&costs);
    return good;
}

static bool cut_into_segments(const struct subject_options *options, struct priced *subject, struct error *error)
{
    struct schedule *order = subject->schedule;
    if (options->into.segments <= 1)
        return true;
    subject->schedule = schedule_segment(order, options->into, error);
    schedule_free(order);
    return subject->schedule != NULL;
}

static bool read_schedule(const struct subject_options *options, const char *text, size_t length,
                          struct priced *subject, struct error *error)
{
    if (csv_is_likely(text, length))
        subject->schedule = read_csv(text, length, options->file, error);
    else
        subject->schedule = schedule_read(text, length, options->file, error);
    return subject->schedule && (options->is_judged || schedule_can_run(subject->schedule, error))
        && cut_into_segments(options, subject, error) && set_prices(options, subject, error);
}

// --- plans ----------------------------------------------------------------------

static bool change_schedule(struct plan *plan, const char *name, struct error *error)
{
    const bool is_order = subject_is_order(name);
    struct schedule *given = is_order ? subject_load_order(name, error) : NULL;
    struct generator generator;
    if ((is_order && !given) || !generator_for(name, given, &generator, error))
        return false;
    schedule_free(plan->given);
    plan->given = given;
    plan->micro_batches = given ? given->micro_batches : plan->micro_batches;
    snprintf(plan->schedule, sizeof plan->schedule, "%s", generator.name);
    plan->weights = generator.weights;
    return true;
}

static bool read_plan(const struct subject_options *options, const char *text, size_t length, struct priced *subject,
                      struct error *error)
{
    if (options->cost || options->overlapped || options->kept.has_forward || options->shared.cluster)
        return error_named(error, "%s: is a plan, which brings its own costs and cluster: leave --cost, "
                                "--overlapped, --keep and --cluster out", options->file);
    if (options->into.segments > 1)
        return error_named(error, "%s: is a plan, whose stages are not cut: leave --segments out, and plan for an order"
                                " in segments", options->file);
    struct plan *plan = plan_read(text, length, options->file, error);
    if (!plan)
        return false;
    const bool is_as_stated = !options->shared.schedule && !options->shared.micro_batches;
    const unsigned asked = is_as_stated ? BELONGS_BY_MEMORY | BELONGS_BY_NUMBERS : 0;
    bool good = plan_use(plan, options->file, (struct plan_company){ 0 }, asked, 0, error)
        && (!options->shared.schedule || change_schedule(plan, options->shared.schedule, error));
    if (options->shared.micro_batches)
        plan->micro_batches = (uint32_t)options->shared.micro_batches;
    good = good && priced_of_plan(plan, !options->is_order, subject, error);
    plan_free(plan);
    return good;
}

// --- schedules by name ----------------------------------------------------------

// A word is a schedule's name if options give the size of a schedule, or if there is no such file but such a
// schedule.
static bool is_name(const struct subject_options *options)
{
    struct error unknown = { 0 };
    const bool is_word = strcmp(options->file, "-") != 0 && !subject_is_order(options->file);
    return is_word && (subject_says_size(options)
                       || (access(options->file, F_OK) != 0 && generator_find(options->file, &unknown)));
}

static bool load_named(const struct subject_options *options, struct priced *subject, struct error *error)
{
    const struct shared_options *shared = &options->shared;
    struct error unknown = { 0 };
    if (!generator_find(options->file, &unknown))
        return error_set(error, "%s; a file's name has a \".\" or a \"/\"", unknown.text);
    if (!shared->ranks || !shared->micro_batches)
        return error_named(error, "%s: is a schedule's name, which needs --ranks and --micro-batches (a file's name"
                           " has a \".\" or a \"/\")", options->file);
    if (shared->schedule)
        return error_named(error, "%s: is a schedule itself: leave --schedule out", options->file);
    const struct generate_request request = { .ranks = (uint32_t)shared->ranks,
                                              .micro_batches = (uint32_t)shared->micro_batches,
                                              .chunks = (uint32_t)shared->chunks, .splits = options->splits,
                                              .into = options->into };
    subject->schedule = schedule_generate_as(options->file, &request, error);
    return subject->schedule && set_prices(options, subject, error);
}

// A missing file may be a misspelt name of a schedule.
static bool refuse_missing(const char *file, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    if (subject_is_order(file) || access(file, F_OK) == 0)
        return false;
    for (const struct generator *known = generators; known->name; known++)
        alike_try(&alike, file, known->name);
    if (!alike.name[0])
        return false;
    *error = (struct error){ 0 };
    return error_set(error, "there is neither a file nor a schedule called %s%s", file, alike_said(&alike, said));
}

// --- either ---------------------------------------------------------------------

bool subject_load(const struct subject_options *given, struct priced *subject, struct error *error)
{
    if (is_name(given))
        return load_named(given, subject, error);
    size_t length;
    char *text = text_load(given->file, &length, error);
    if (!text)
        return refuse_missing(given->file, error);
    struct subject_options options = *given;
    options.file = name_of(given->file);
    const bool has_plan = is_plan(text, length, options.file, error);
    bool good = error->kind == ERROR_NONE;
    if (good && subject_says_size(given))
        good = error_named(error, "%s: is a file, which says itself how large it is: leave --ranks, --chunks and"
                           " --splits out", options.file);
    else if (good && has_plan)
        good = read_plan(&options, text, length, subject, error);
    else if (good && options.shared.micro_batches)
        good = error_named(error, "%s: is a schedule, whose micro-batches are its own: leave --micro-batches out",
                           options.file);
    else if (good && options.shared.schedule)
        good = error_named(error, "%s: is a schedule itself: leave --schedule out", options.file);
    else if (good)
        good = read_schedule(&options, text, length, subject, error);
    if (!good) {
        const char *cost = options.cost && !strchr(options.cost, ',') ? options.cost : NULL;
        command_name_files(error, options.file, cost);
        import_hint(text, length, options.file, error);
    }
    free(text);
    return good;
}

bool subject_is_order(const char *schedule)
{
    return strpbrk(schedule, "./") != NULL;
}

struct schedule *subject_load_order(const char *file, struct error *error)
{
    const struct subject_options options = { .file = file, .is_order = true, .is_judged = true };
    struct priced subject = { .schedule = NULL };
    struct schedule *order = subject_load(&options, &subject, error) ? given_order(subject.schedule, error) : NULL;
    if (order && subject.schedule->lowered)
        command_say("%s: its SENDs and RECVs are left out: a plan's stand where Weir places them", name_of(file));
    priced_clear(&subject);
    if (!order)
        command_name_files(error, file, NULL);
    return order;
}

bool subject_wants_costs(const struct subject_options *options, const struct priced *subject, struct error *error)
{
    return subject->schedule->costs
        || error_named(error, "%s: has no costs: give --cost F,I,W,C or a document of them", name_of(options->file));
}
