// weir profile: measures a built-in model on this machine, or the links between ranks, or checks a profile.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/least_places.h"
#include "cli/options.h"
#include "cli/profile_links.h"
#include "cli/ranks.h"
#include "cli/result.h"
#include "common/progress.h"
#include "common/shown.h"
#include "models/shards.h"
#include "profiler/expert_routing.h"
#include "profiler/lint.h"
#include "profiler/report.h"
#include "profiler/table_reads.h"
#include "trainer/calibrate.h"
#include "trainer/measure_model.h"
#include "trainer/measure_shards.h"
#include "trainer/measure_sizes.h"
#include "trainer/model_spec.h"

enum { KEY_LINT = KEY_OWN, KEY_REPEATS, KEY_CLOCK, KEY_LINKS, KEY_TENSOR, KEY_CALIBRATE, KEY_SIZES, KEY_ROWS,
       KEY_TABLES, KEY_EXPERTS, KEY_MOST_ROWS, KEY_DATA, KEY_BATCHES, KEY_OPTIMIZER, KEY_WEIGHTS };

struct profile_arguments {
    const char *model, *lint, *device, *data, *weights;
    uint64_t batches;  // 0: not given
    struct measure_options how;
    bool says_clock, is_links, is_calibration, verbose;
    uint32_t tensor[8], rows[8];  // each one a variant
    size_t tensor_count, row_count;
    char *tables, *experts;  // with --rows: places of tables, or of experts, each one a variant
    uint64_t most_rows;  // that a device's experts take; 0: all that there can be
    int optimizer;  // that `least` places for; below 0: not given
    uint32_t sizes[MEASURED_SIZES];  // 0: only the model's own micro-batch
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_OUTPUT,
    OPTION_JSON,
    OPTION_DEVICE,
    OPTION_VERBOSE,
    OPTION_PAD_VOCABULARY,
    { "repeats", KEY_REPEATS, "N", 0, "Samples of each time (20)", 0 },
    { "sizes", KEY_SIZES, "A,B,C", 0, "Times from micro-batches A and C, checked at B", 0 },
    { "clock", KEY_CLOCK, "C", 0, "cpu, the thread's own time (the default), or wall", 0 },
    { "tensor", KEY_TENSOR, "N,...", 0, "Also layers split over N devices (variants)", 0 },
    { "rows", KEY_ROWS, "N,...", 0, "Also whole layers on N that share samples", 0 },
    { "tables", KEY_TABLES, "P,...", 0, "With --rows: also tables split as P says", 0 },
    { "experts", KEY_EXPERTS, "P,...", 0, "With --rows: experts split as P says", 0 },
    { "most-rows", KEY_MOST_ROWS, "N", 0, "Dropless experts: room for N rows a device", 0 },
    { "data", KEY_DATA, "D", 0, "Clicks, or a text for experts, that is counted", 0 },
    { "batches", KEY_BATCHES, "N", 0, "How many micro-batches of them (200)", 0 },
    { "weights", KEY_WEIGHTS, "F", 0, "With a text: the checkpoint of the experts", 0 },
    OPTION_MICRO_BATCHES,
    { "optimizer", KEY_OPTIMIZER, "NAME", 0, "What --tables least places for (sgd)", 0 },
    OPTION_CLUSTER,
    { "links", KEY_LINKS, 0, 0, "The links between ranks, as a cluster", 0 },
    OPTION_MEMORY,
    { "calibrate", KEY_CALIBRATE, 0, 0, "Rates of kernels, for weir estimate --device", 0 },
    { "lint", KEY_LINT, "FILE", 0, "Say what looks wrong with a profile, a line each", 0 },
    { 0 },
};

static void take_clock(struct profile_arguments *given, const char *argument, struct argp_state *state)
{
    given->says_clock = true;
    given->how.clock = strcmp(argument, "wall") == 0 ? MEASURE_WALL : MEASURE_THREAD_CPU;
    if (given->how.clock != MEASURE_WALL && strcmp(argument, "cpu") != 0)
        argp_error(state, "--clock: \"%s\" is neither cpu nor wall", argument);
}

static bool has_variants(const struct profile_arguments *given)
{
    return given->tensor_count + given->row_count > 0 || given->tables;
}

// Whether --tables or --experts has the word that stands for the placement of `weir place`.
static bool places_least(const char *places)
{
    for (const char *word = places; word; word = strchr(word, ',')) {
        word += *word == ',';
        if (strcspn(word, ",") == strlen("least") && strncmp(word, "least", strlen("least")) == 0)
            return true;
    }
    return false;
}

static void check_least(const struct profile_arguments *given, struct argp_state *state)
{
    const bool has_all = given->data && given->shared.cluster && given->shared.micro_batches > 0;
    const bool is_least = places_least(given->tables);
    if (!is_least && given->optimizer >= 0)
        argp_error(state, "--optimizer is for --tables least");
    if (!is_least && !places_least(given->experts) && given->shared.micro_batches > 0)
        argp_error(state, "--micro-batches is for --tables least and --experts least");
    if (is_least && (!has_all || given->row_count != 1))
        argp_error(state, "--tables least places by what is read: it needs --data, --cluster, --micro-batches and one"
                   " number of --rows");
    if (places_least(given->experts) && !given->data)
        argp_error(state, "--experts least places by what tokens choose: it needs --data");
}

static const struct option_field fields[] = {
    { KEY_REPEATS, OPTION_FIELD(struct profile_arguments, how.repeats), .least = 20, .most = 100000 },
    { KEY_TABLES, OPTION_FIELD(struct profile_arguments, tables) },
    { KEY_EXPERTS, OPTION_FIELD(struct profile_arguments, experts) },
    { KEY_MOST_ROWS, OPTION_FIELD(struct profile_arguments, most_rows), .least = 1, .most = INT32_MAX },
    { KEY_DATA, OPTION_FIELD(struct profile_arguments, data) },
    { KEY_WEIGHTS, OPTION_FIELD(struct profile_arguments, weights) },
    { KEY_BATCHES, OPTION_FIELD(struct profile_arguments, batches), .least = 1, .most = READS_MOST_BATCHES },
    { KEY_DEVICE, OPTION_FIELD(struct profile_arguments, device) },
    { KEY_VERBOSE, OPTION_FIELD(struct profile_arguments, verbose) },
    { KEY_LINT, OPTION_FIELD(struct profile_arguments, lint) },
    { KEY_CALIBRATE, OPTION_FIELD(struct profile_arguments, is_calibration) },
    { KEY_LINKS, OPTION_FIELD(struct profile_arguments, is_links) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct profile_arguments, model), .what = "model" },
    { 0 },
};

static error_t parse_profile_option(int key, char *argument, struct argp_state *state)
{
    struct profile_arguments *given = state->input;
    switch (key) {
    case KEY_TENSOR:
        given->tensor_count = option_counts(argument, "--tensor", 2, SHARDS_MOST, given->tensor,
                                            sizeof given->tensor / sizeof given->tensor[0], state);
        break;
    case KEY_ROWS:
        given->row_count = option_counts(argument, "--rows", 2, SHARDS_MOST, given->rows,
                                         sizeof given->rows / sizeof given->rows[0], state);
        break;
    case KEY_SIZES:
        if (option_counts(argument, "--sizes", 1, 1024, given->sizes, MEASURED_SIZES, state) != MEASURED_SIZES
            || given->sizes[0] >= given->sizes[1] || given->sizes[1] >= given->sizes[2])
            argp_error(state, "--sizes: %s are not three ascending sizes, such as 16,32,64", argument);
        break;
    case KEY_OPTIMIZER:
        given->optimizer = (int)option_name(argument, "--optimizer", least_optimizers(), state);
        break;
    case KEY_CLOCK:
        take_clock(given, argument, state);
        break;
    case ARGP_KEY_END:
        if ((given->model != NULL) + (given->lint != NULL) + given->is_links + given->is_calibration != 1)
            argp_error(state, "either a model, or --links, or --calibrate, or --lint and a profile is needed");
        if (given->is_calibration && (given->says_clock || given->shared.memory_bytes > 0))
            argp_error(state, "--calibrate has a clock and a memory of its own: leave --clock and --memory out");
        if (given->is_links ? given->says_clock : given->shared.memory_bytes > 0)
            argp_error(state, given->is_links ? "links are timed by the devices: --clock says nothing of them"
                                              : "--memory is for --links");
        if (given->shared.pad_vocabulary && !given->model)
            argp_error(state, "--pad-vocabulary is for a model");
        if (given->sizes[0] > 0 && (!given->model || has_variants(given)))
            argp_error(state, "--sizes is for a model, without --tensor and --rows");
        if (has_variants(given) && !given->model)
            argp_error(state, "%s is for a model", given->tensor_count > 0 ? "--tensor" : "--rows");
        if (given->tables && given->row_count == 0 && strncmp(given->tables, "host", 4) != 0)
            argp_error(state, "--tables is for --rows: which of the devices has which table; or host50000 for room");
        if (given->tables && given->row_count > 0 && strncmp(given->tables, "host", 4) == 0)
            argp_error(state, "--tables: on the host of several devices is each one's part of the tables: say which,"
                              " as slots:host50000");
        if (given->experts && (given->row_count == 0 || given->tables))
            argp_error(state, "--experts is for --rows, without --tables: which of the devices has which expert");
        if (given->most_rows > 0 && !given->experts)
            argp_error(state, "--most-rows is for --experts: the room that a device has for the rows of its experts");
        if (given->data && (!given->model || given->sizes[0] > 0 || given->tensor_count > 0))
            argp_error(state, "--data is for a model, without --sizes and --tensor");
        if (given->batches > 0 && !given->data)
            argp_error(state, "--batches is for --data, whose micro-batches are counted");
        if (given->weights && !given->data)
            argp_error(state, "--weights is for --data: what is counted depends on both");
        check_least(given, state);
        if (given->shared.cluster && !has_variants(given))
            argp_error(state, "--cluster is for --tensor and --rows: the link that their devices add up over");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_profile_option,
    .args_doc = "MODEL\n--links\n--calibrate\n--lint FILE",
    .doc = "Measures what the layers of a built-in model cost on this machine, or the links between ranks; or looks a "
           "profile over.\v"
           "--tensor 2,4 adds variants \"tensor2\" and \"tensor4\" of layers that can be split, and \"tensor2sp\""
           " (sequence parallel); their sums take what they take here, or over the innermost link of --cluster. --rows"
           " 2 adds \"rows2\": whole layers on two devices that share the samples. --tables slots,rows,columns adds"
           " \"rows2:slots\", .. (least: as weir place would); alone, host50000: on the host. --experts blocks,dealt,"
           "least splits experts.\n\n"
           "With --links the ranks are processes that torchrun, mpirun or srun has started, or several devices of one;"
           " the document is what --cluster takes. Exit code 1: a finding makes the profile untrusted.\n\n"
           "Examples:\n  weir profile gpt-nano -o profile.json\n"
           "  torchrun --nproc-per-node 8 --no-python weir profile --links --device cuda\n",
};

// --- looking one over ---------------------------------------------------------------

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
        text_add(&text, "%zu finding%s: this profile is untrusted.", found.findings, plural);
    else if (found.findings > 0)
        text_add(&text, "%zu finding%s, none that makes this profile untrusted.", found.findings, plural);
    else
        shown_add(&text, "%s: nothing looks wrong.", path);
    text_add(&text, "\n");
    return command_print(&text, NULL, found.grave > 0 ? ERROR_ANSWER : 0);
}

// --- measuring -----------------------------------------------------------------------

static void show(void *self, size_t done, size_t all)
{
    progress_show(self, "measuring: %zu of %zu", done, all);
}

// The document goes to its file; stdout gets the table, or with --json the document.
static int write_result(const struct profile_arguments *given, const struct profile *profile,
                        const struct measurement *measurement, const struct text *said)
{
    struct result result = { 0 };
    profile_write(profile, &result.document);
    profile_print(profile, &result.table);
    if (measurement)
        measurement_print(measurement, &result.table);
    if (profile->reads)
        reads_print(profile->reads, profile->micro_batch, &result.table);
    if (profile->routing)
        routing_print(profile->routing, &result.table);
    text_add(&result.table, "%s", said->data ? said->data : "");
    return result_keep(&result, &given->shared, 0);
}

static bool has_that_clock(const struct device *device, const struct profile_arguments *given, struct error *error)
{
    if (!device_runs_ahead(device) || !given->says_clock || given->how.clock == MEASURE_WALL)
        return true;
    return error_set(error, "--clock cpu: device %s does later what a thread asks of it, so the thread's time says "
                     "nothing of the layers'; leave --clock out", given->device);
}

// Variants with tables on the host: host50000,host100000.
static bool add_rooms(const struct profile_arguments *given, const char *spec, struct device *device,
                      const struct sample_data *data, struct profile *profile, struct error *error)
{
    bool good = true;
    for (const char *word = given->tables; good && word; word = strchr(word, ',')) {
        word += *word == ',';
        const size_t length = strcspn(word, ",");
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), word);
        const struct sharding sharding = variant_sharding(name);
        good = sharding.room > 0 || error_set(error, "--tables: \"%.*s\" is no host50000, tables on the host with room"
                                              " for 50000 of their rows", (int)(length < 60 ? length : 60), word);
        good = good && measure_room(profile, spec, device, sharding.room, data, &given->how, error);
    }
    return good;
}

static bool add_least(const struct profile_arguments *given, const char *spec, struct device *device,
                      const struct cluster *cluster, const struct sample_data *data, struct profile *profile,
                      struct error *error)
{
    const struct least_request request = { profile, cluster, given->rows[0], given->shared.micro_batches,
                                           given->optimizer < 0 ? 0 : given->optimizer };
    char *places = least_places(&request, error);
    const bool good = places && measure_own_rows(profile, spec, device, given->rows[0], places, cluster, data,
                                                 &given->how, error);
    free(places);
    return good;
}

// Experts as these words say; `least`: where they make the slowest member least busy.
static bool add_experts(const struct profile_arguments *given, const char *spec, struct device *device,
                        uint32_t members, const char *words, const struct cluster *cluster, struct profile *profile,
                        struct error *error)
{
    struct text places = { 0 };
    char *least = strcmp(words, "least") == 0
        ? least_expert_places(profile, members, cluster, given->shared.micro_batches, error) : NULL;
    if (!least && strcmp(words, "least") == 0)
        return false;
    text_add(&places, "%s", least ? least : words);
    if (given->most_rows > 0)
        text_add(&places, ":%llu", (unsigned long long)given->most_rows);
    char *all = text_take(&places, error);
    const bool good = all && measure_own_rows(profile, spec, device, members, all, cluster, NULL, &given->how, error);
    free(all);
    free(least);
    return good;
}

// A variant for each of the places of --tables, or of --experts.
static bool add_places(const struct profile_arguments *given, const char *spec, struct device *device, uint32_t members,
                       const struct cluster *cluster, const struct sample_data *data, struct profile *profile,
                       struct error *error)
{
    const char *words = given->experts ? given->experts : given->tables;
    char *all = words ? strdup(words) : NULL, *rest = NULL;
    bool good = all || !words || error_no_memory(error, "the places of tables and experts");
    for (char *places = all ? strtok_r(all, ",", &rest) : NULL; good && places; places = strtok_r(NULL, ",", &rest))
        good = given->experts ? add_experts(given, spec, device, members, places, cluster, profile, error)
             : strcmp(places, "least") == 0
                 ? add_least(given, spec, device, cluster, data, profile, error)
                 : measure_own_rows(profile, spec, device, members, places, cluster, data, &given->how, error);
    free(all);
    return good;
}

static bool add_variants(const struct profile_arguments *given, const char *spec, struct device *device,
                         const struct sample_data *data, struct profile *profile, struct error *error)
{
    const char *named = given->shared.cluster;
    struct cluster *cluster = named ? cluster_load(named, error) : NULL;
    bool good = !named || cluster;
    if (good && given->tables && given->row_count == 0)
        good = add_rooms(given, spec, device, data, profile, error);
    for (size_t i = 0; good && i < given->tensor_count; i++)
        good = measure_shards(profile, spec, device, given->tensor[i], cluster, &given->how, error);
    for (size_t i = 0; good && i < given->row_count; i++)
        good = (given->experts  // which have no places in a plain variant
                || measure_own_rows(profile, spec, device, given->rows[i], NULL, cluster, data, &given->how, error))
            && add_places(given, spec, device, given->rows[i], cluster, data, profile, error);
    cluster_free(cluster);
    return good;
}

// What --data names: samples, or a text, which may come from a document.
struct counted_data {
    struct sample_data samples;
    struct text_data text;
    bool is_text;
};

// Only a model of text takes a file that is no document of data.
static bool takes_text(const struct profile_arguments *given, const char *spec, const struct device *device,
                       struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const bool good = model && (model->family == FAMILY_TEXT
                                || error_named(error, "--data %s: is no document of data: weir data makes one",
                                               given->data));
    model_free(model);
    return good;
}

static bool load_data(const struct profile_arguments *given, const char *spec, const struct device *device,
                      struct counted_data *data, struct error *error)
{
    if (!given->data)
        return true;
    data->is_text = !sample_data_is(given->data);
    if (data->is_text && !takes_text(given, spec, device, error))
        return false;
    if (data->is_text)
        return (!has_variants(given) || given->experts
                || error_set(error, "--data: a text is counted without --rows and --tables"))
            && text_data_load(given->data, &data->text, error);
    if (!sample_data_load(given->data, &data->samples, error))
        return false;
    data->is_text = strcmp(data->samples.kind, "text") == 0;
    if (data->is_text)
        return text_data_take(&data->samples, &data->text, error);
    return !given->weights || error_named(error, "--weights is for the text of a model with experts, and %s has"
                                          " samples", given->data);
}

static bool is_precise(const struct kept_model *kept, const struct device *device,
                       const struct profile_arguments *given, struct error *error)
{
    const enum precision precision = kept->model->sizes.precision;
    return device_precision(device) == precision
        || error_named(error, "--weights %s is in %s, and device %s in %s", given->weights, precision_name(precision),
                       given->device, precision_name(device_precision(device)));
}

static struct profile *profile_of_text(const struct profile_arguments *given, const char *spec, struct device *device,
                                       const struct text_data *text, uint64_t batches,
                                       struct measurement **measurement, struct error *error)
{
    struct kept_model kept = { 0 };
    struct profile *profile = NULL;
    if (batches > ROUTING_MOST_BATCHES)
        error_set(error, "--batches: of a text at most %d are counted", ROUTING_MOST_BATCHES);
    else if (!given->weights || (kept_model_load(given->weights, spec, command_say_sentence, &kept, error)
                                 && is_precise(&kept, device, given, error)))
        profile = measure_routing(spec, device, text, given->weights ? &kept : NULL, batches, &given->how, measurement,
                                  error);
    kept_model_clear(&kept);
    return profile;
}

static struct profile *profile_of(const struct profile_arguments *given, const char *spec, struct device *device,
                                  const struct counted_data *data, struct measurement **measurement, struct text *said,
                                  struct error *error)
{
    const uint64_t batches = given->batches > 0 ? given->batches : 200;
    if (given->sizes[0] > 0)
        return measure_sizes(spec, device, &given->how, given->sizes, said, error);
    if (!given->data)
        return measure_model(spec, device, &given->how, measurement, error);
    struct profile *profile = data->is_text
        ? profile_of_text(given, spec, device, &data->text, batches, measurement, error)
        : measure_reads(spec, device, &data->samples, batches, &given->how, measurement, error);
    if (!profile)
        command_name_files(error, given->data, NULL);
    return profile;
}

static int measure(const struct profile_arguments *given)
{
    struct error error = { 0 };
    struct measurement *measurement = NULL;
    char *spec = model_spec_named(given->model, given->shared.pad_vocabulary, &error);
    const bool is_said = spec && (!given->verbose || devices_explain(given->device, &error));
    struct device *device = is_said ? device_open(given->device, &error) : NULL;
    struct profile *profile = NULL;
    struct counted_data data = { .is_text = false };
    struct text said = { 0 };
    if (device && has_that_clock(device, given, &error) && load_data(given, spec, device, &data, &error))
        profile = profile_of(given, spec, device, &data, &measurement, &said, &error);
    const struct sample_data *ran_on = given->data && !data.is_text ? &data.samples : NULL;
    const bool good = profile && (!has_variants(given) || add_variants(given, spec, device, ran_on, profile, &error));
    progress_end(given->how.self);
    const int code = good ? write_result(given, profile, measurement, &said) : command_fail(&error);
    text_clear(&said);
    measurement_free(measurement);
    profile_free(profile);
    sample_data_clear(&data.samples);
    text_data_clear(&data.text);
    device_close(device);
    free(spec);
    return code;
}

static int calibrate(const struct profile_arguments *given)
{
    struct error error = { 0 };
    struct rated_device rated;
    struct device *device = device_open(given->device, &error);
    const bool good = device && calibrate_device(device, &rated, &error);
    device_close(device);
    if (!good)
        return command_fail(&error);
    struct text text = { 0 };
    rated_device_write(&rated, &text);
    return command_write(&text, given->shared.output, 0);
}

static int run(int count, char **arguments)
{
    struct progress progress = { 0 };
    struct profile_arguments given = { .how = measure_usual_options(), .optimizer = -1 };
    given.how.progress = show;
    given.how.self = &progress;
    command_parse(&argp, count, arguments, &given);
    if (given.is_links)
        return profile_links(&(struct links_given){ given.device, &given.shared, &given.how, given.verbose });
    given.device = given.device ? given.device : "cpu";
    if (given.is_calibration)
        return calibrate(&given);
    return given.lint ? lint(given.lint) : measure(&given);
}

const struct command command_profile = { "profile", "measure what a model's layers cost", run };
