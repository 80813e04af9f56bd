// weir data KIND [FILE...] -o OUT: makes a document of data; weir data OUT: shows it.

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/number.h"
#include "common/shown.h"
#include "trainer/click_regression.h"
#include "trainer/data/click_reads.h"
#include "trainer/data/make_data.h"

enum { MOST_FILES = 32, MOST_SAMPLES = INT32_MAX, MOST_IDS = 1 << 28, MOST_BAG = 1024, MOST_BATCH = 1 << 24,
       MOST_BATCHES = 1000000 };

enum {
    KEY_BY_TIME = KEY_OWN,
    KEY_CAPACITY,
    KEY_SAMPLES,
    KEY_SLOTS,
    KEY_NUMBERS,
    KEY_IDS,
    KEY_MOST,
    KEY_SEED,
    KEY_READS,
    KEY_BATCHES,
    KEY_BASELINE,
    KEYS_END,
};

struct data_arguments {
    const char *subject;  // a kind of data, or a document
    char *files[MOST_FILES];
    size_t file_count;
    bool is_given[KEYS_END - KEY_OWN];
    struct data_options options;
    uint64_t batch, batches, seed;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    { NULL, 0, NULL, 0, "movielens:", 1 },
    { "by-time", KEY_BY_TIME, 0, 0, "Hold the latest tenth of the ratings out, instead of a random one", 1 },
    { NULL, 0, NULL, 0, "criteo:", 2 },
    { "capacity", KEY_CAPACITY, "N", 0, "Ids of each slot, to which words are hashed (1048576)", 2 },
    { NULL, 0, NULL, 0, "make-clicks:", 3 },
    { "samples", KEY_SAMPLES, "N", 0, "Samples, of which the last tenth is held out (200000)", 3 },
    { "slots", KEY_SLOTS, "N", 0, "Slots (26)", 3 },
    { "numbers", KEY_NUMBERS, "N", 0, "Numbers of a sample (13)", 3 },
    { "ids", KEY_IDS, "N", 0, "Ids of each slot (200)", 3 },
    { "most", KEY_MOST, "N", 0, "The most ids that a sample has in a slot (1)", 3 },
    { "seed", KEY_SEED, "N", 0, "Draw other clicks (1)", 3 },
    { NULL, 0, NULL, 0, "A document of clicks:", 4 },
    { "reads", KEY_READS, "BATCH", 0, "What batches of so many samples read of each slot's table", 4 },
    { "batches", KEY_BATCHES, "N", 0, "Batches to count for --reads (100)", 4 },
    OPTION_JSON_IN(4),
    { "baseline", KEY_BASELINE, 0, 0, "What logistic regression and the majority reach on what is held out", 4 },
    { NULL, 0, NULL, 0, "All:", 5 },
    { "output", 'o', "FILE", 0, "Where the document goes", 5 },
    { 0 },
};

static error_t parse_argument(char *argument, struct data_arguments *given, struct argp_state *state)
{
    if (!given->subject)
        given->subject = argument;
    else if (given->file_count == MOST_FILES)
        argp_error(state, "at most %d files", MOST_FILES);
    else
        given->files[given->file_count++] = argument;
    return 0;
}

static error_t parse_data_option(int key, char *argument, struct argp_state *state)
{
    struct data_arguments *given = state->input;
    struct planted_clicks *planted = &given->options.planted;
    if (key >= KEY_OWN && key < KEYS_END)
        given->is_given[key - KEY_OWN] = true;
    switch (key) {
    case ARGP_KEY_ARG: return parse_argument(argument, given, state);
    case KEY_BY_TIME: given->options.by_time = true; break;
    case KEY_CAPACITY:
        given->options.capacity = option_count(argument, "--capacity", 1, UINT32_MAX, state);
        break;
    case KEY_SAMPLES: planted->samples = option_count(argument, "--samples", 10, MOST_SAMPLES, state); break;
    case KEY_SLOTS: planted->slots = option_count(argument, "--slots", 1, CLICK_SLOTS, state); break;
    case KEY_NUMBERS: planted->numbers = option_count(argument, "--numbers", 0, CLICK_NUMBERS, state); break;
    case KEY_IDS: planted->ids = option_count(argument, "--ids", 1, MOST_IDS, state); break;
    case KEY_MOST: planted->most = option_count(argument, "--most", 1, MOST_BAG, state); break;
    case KEY_SEED: given->seed = planted->seed = option_count(argument, "--seed", 0, UINT32_MAX, state); break;
    case KEY_READS: given->batch = option_count(argument, "--reads", 1, MOST_BATCH, state); break;
    case KEY_BATCHES: given->batches = option_count(argument, "--batches", 1, MOST_BATCHES, state); break;
    case KEY_BASELINE: break;
    default: return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_data_option,
    .args_doc = "[KIND [FILE...] | DOCUMENT]",
    .doc = "Makes a document of data to train on, with its numbers beside it in a file of the same name and .numbers;"
           " or shows what a document has. Without a name it lists the kinds.\v"
           "Models say which fields they want (weir model). weir train takes the document as --data.\n\n"
           "Examples:\n"
           "  weir data fashion-mnist -o fashion.json\n"
           "  weir data fashion.json\n"
           "  weir data text /usr/share/common-licenses -o licences.json\n"
           "  weir data movielens ml-100k.inter ml-100k.item ml-100k.user -o films.json\n"
           "  weir data films.json --baseline\n"
           "  weir data films.json --reads 2048",
};

static void list_kinds(struct text *text)
{
    size_t count;
    const struct data_kind *kinds = data_kinds(&count);
    for (size_t i = 0; i < count; i++)
        text_add(text, "%-14s %s%s%s%s\n", kinds[i].name, kinds[i].sentence, kinds[i].files[0] ? " (" : "",
                 kinds[i].files, kinds[i].files[0] ? ")" : "");
}

// How often each label is there, of one field with few classes.
static void show_classes(const struct sample_data *data, size_t f, struct text *text)
{
    enum { MOST = 16 };
    const struct sample_field *field = &data->fields[f];
    uint64_t counts[2][MOST] = { { 0 } };
    if (field->classes == 0 || field->classes > MOST || sample_field_numbers(field) != 1 || field->type != SAMPLE_U8)
        return;
    for (uint64_t i = 0; i < data->train + data->held; i++)
        counts[i >= data->train][data->numbers[field->first_byte + i]]++;
    for (int held = 0; held < 2; held++) {
        text_add(text, "  %-10s of each %s:", held ? "held out" : "to train on", field->name);
        for (uint64_t k = 0; k < field->classes; k++)
            text_add(text, " %" PRIu64, counts[held][k]);
        text_add(text, "\n");
    }
}

static void show_fields(const struct sample_data *data, struct text *text)
{
    for (size_t f = 0; f < data->field_count; f++) {
        const struct sample_field *field = &data->fields[f];
        text_add(text, "  ");
        shown_add(text, "%s", field->name);
        text_add(text, " %s", sample_types[field->type]);
        for (size_t k = 0; k < SAMPLE_SIZES && field->sizes[k] > 0; k++)
            text_add(text, "%s%zu", k > 0 ? "x" : " ", field->sizes[k]);
        if (field->classes > 0)
            text_add(text, " below %" PRIu64, field->classes);
        text_add(text, "\n");
    }
    for (size_t f = 0; f < data->field_count; f++)
        show_classes(data, f, text);
}

static double share_of_positives(const struct sample_data *data, bool held_out)
{
    return (double)click_data_positives(data, held_out) / (double)(held_out ? data->held : data->train);
}

static void show_clicks(const struct sample_data *data, struct text *text)
{
    static const char *const splits[] = {
        [CLICK_SPLIT_RANDOM] = "about a tenth, by a hash of the number of each sample",
        [CLICK_SPLIT_LAST] = "the last samples",
        [CLICK_SPLIT_TIME] = "the latest samples",
    };
    const struct click_fields *fields = &data->clicks;
    text_add(text, "  held out: %s\n  numbers:", splits[fields->split]);
    for (size_t n = 0; n < fields->number_count; n++)
        shown_add(text, " %s", fields->numbers[n]);
    text_add(text, "%s\n", fields->number_count == 0 ? " none" : "");
    text_add(text, "  slot                           ids  most of a sample\n");
    for (size_t s = 0; s < fields->slot_count; s++) {
        text_add(text, "  ");
        shown_add_cell(text, fields->slots[s].name, 20, CLICK_NAME);
        text_add(text, " %13" PRIu64 " %17" PRIu64 "\n", fields->slots[s].ids, fields->slots[s].most);
    }
    text_add(text, "  label 1: %.4f of those to train on", share_of_positives(data, false));
    if (data->held > 0)
        text_add(text, ", %.4f of those held out", share_of_positives(data, true));
    text_add(text, "\n");
    if (fields->is_generated)
        text_add(text, "  generated with seed %" PRIu64 ": the probabilities that labels were drawn from have an AUC of"
                 " %.4f on those held out, which no model exceeds but by luck\n", fields->seed,
                 fields->best_auc_ppm / 1e6);
}

static void show_data(const struct sample_data *data, struct text *text)
{
    char size[NUMBER_SIZE];
    shown_add(text, "%s", data->kind);
    text_add(text, ": %" PRIu64 " %s to train on, %" PRIu64 " held out, %s; licence: ", data->train,
             strcmp(data->kind, "text") == 0 ? "tokens" : "samples", data->held, bytes_format(data->bytes, size));
    shown_add(text, "%s", data->licence);
    text_add(text, "\n");
    if (data->clicks.slot_count > 0)
        show_clicks(data, text);
    else
        show_fields(data, text);
}

// --- clicks ----------------------------------------------------------------------------------

static void reads_table(const struct sample_data *data, const struct data_arguments *given,
                        const struct click_reads *reads, struct text *text)
{
    text_add(text, "%" PRIu64 " batches of %" PRIu64 " samples read of each slot:\n\n", given->batches, given->batch);
    text_add(text, "  slot                           ids  ids a sample  95 %% of batches  different ids"
             "  95 %%  most\n");
    for (size_t s = 0; s < click_data_slots(data); s++) {
        text_add(text, "  ");
        shown_add_cell(text, click_data_slot_name(data, s), 20, CLICK_NAME);
        text_add(text, " %13" PRIu64 " %13.3f %16.3f %14" PRIu64 " %5" PRIu64 " %5" PRIu64 "\n",
                 click_data_ids(data, s), (double)reads[s].reads_milli / 1000,
                 (double)reads[s].reads_p95_milli / 1000, reads[s].unique[0], reads[s].unique_p95,
                 reads[s].unique_most);
    }
}

static bool show_reads(const struct sample_data *data, const struct data_arguments *given, struct text *text,
                       struct error *error)
{
    const struct click_batches batches = { given->seed, given->batch, given->batches };
    struct click_reads reads[CLICK_SLOTS];
    if (!click_reads_count(data, &batches, NULL, reads, error))
        return false;
    if (given->shared.json)
        click_reads_put(data, &batches, reads, text);
    else
        reads_table(data, given, reads, text);
    return true;
}

static bool show_baseline(const struct sample_data *data, const struct data_arguments *given, struct text *text,
                          struct error *error)
{
    struct click_baseline baseline;
    if (!click_baseline_find(data, given->seed, &baseline, error))
        return false;
    if (data->held == 0)
        return error_set(error, "--baseline: the %s data have nothing held out", data->kind);
    text_add(text, "on the %" PRIu64 " held-out samples the more frequent label is right for %.4f", data->held,
             baseline.majority);
    if (baseline.fit.epochs == 0)
        text_add(text, "; logistic regression on so many samples would take minutes, and is left out\n");
    else if (isnan(baseline.auc))
        text_add(text, "; their labels are all the same, so there is no AUC\n");
    else
        text_add(text, ", and logistic regression on the same fields has an AUC of %.4f (its L2, %g, is the best of"
                 " five; %u epochs, within %.1g of the best loss)\n", baseline.auc, baseline.l2, baseline.fit.epochs,
                 baseline.fit.gap);
    return true;
}

static bool is_given(const struct data_arguments *given, int key)
{
    return given->is_given[key - KEY_OWN];
}

static bool show_document(const char *path, const struct data_arguments *given, struct text *text, struct error *error)
{
    struct sample_data data;
    if (!sample_data_load(path, &data, error))
        return false;
    const bool wants_clicks = is_given(given, KEY_READS) || is_given(given, KEY_BASELINE);
    bool good = !wants_clicks || data.clicks.slot_count > 0
             || error_named(error, "%s: --reads and --baseline are of clicks, and the %s data are none", path, data.kind);
    if (good && is_given(given, KEY_READS))
        good = show_reads(&data, given, text, error);
    else if (good && is_given(given, KEY_BASELINE))
        good = show_baseline(&data, given, text, error);
    else if (good)
        show_data(&data, text);
    sample_data_clear(&data);
    return good;
}

// --- the command -----------------------------------------------------------------------------

static bool is_kind(const char *name)
{
    size_t count;
    const struct data_kind *kinds = data_kinds(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return true;
    return false;
}

// Each option belongs to one kind, or to documents that are there; --seed to both.
static bool options_fit(const struct data_arguments *given, struct error *error)
{
    static const struct {
        int key;
        const char *name, *kind;  // NULL: a document
    } owners[] = {
        { KEY_BY_TIME, "by-time", "movielens" }, { KEY_CAPACITY, "capacity", "criteo" },
        { KEY_SAMPLES, "samples", "make-clicks" }, { KEY_SLOTS, "slots", "make-clicks" },
        { KEY_NUMBERS, "numbers", "make-clicks" }, { KEY_IDS, "ids", "make-clicks" },
        { KEY_MOST, "most", "make-clicks" }, { KEY_READS, "reads", NULL }, { KEY_BATCHES, "batches", NULL },
        { KEY_BASELINE, "baseline", NULL },
    };
    const char *kind = given->subject && is_kind(given->subject) ? given->subject : NULL;
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        const char *owner = owners[i].kind;
        if (is_given(given, owners[i].key) && (owner ? !kind || strcmp(owner, kind) != 0 : kind != NULL))
            return error_set(error, "--%s goes with %s%s", owners[i].name,
                             owner ? "weir data " : "a document of clicks", owner ? owner : "");
    }
    const bool reads = is_given(given, KEY_READS), baseline = is_given(given, KEY_BASELINE);
    if (reads && baseline)
        return error_set(error, "--reads and --baseline: give one of them");
    if ((is_given(given, KEY_BATCHES) || given->shared.json) && !reads)
        return error_set(error, "--%s goes with --reads", given->shared.json ? "json" : "batches");
    if (is_given(given, KEY_SEED) && !reads && !baseline && (!kind || strcmp(kind, "make-clicks") != 0))
        return error_set(error, "--seed goes with weir data make-clicks, --reads or --baseline");
    return true;
}

static bool work(const struct data_arguments *given, struct text *text, struct error *error)
{
    if (!options_fit(given, error))
        return false;
    if (!given->subject) {
        list_kinds(text);
        return true;
    }
    if (!is_kind(given->subject) && given->file_count == 0 && !given->shared.output)
        return show_document(given->subject, given, text, error);
    if (is_kind(given->subject) && !given->shared.output)
        return error_set(error, "-o says where the document goes; its numbers go beside it");
    return data_make(given->subject, given->files, given->file_count, &given->options, given->shared.output, error)
        && show_document(given->shared.output, given, text, error);
}

static int run(int count, char **arguments)
{
    struct data_arguments given = { .options = data_options_usual(), .batches = 100, .seed = 1 };
    struct error error = { 0 };
    struct text text = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (work(&given, &text, &error))
        return command_print(&text, NULL, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_data = { "data", "data to train on: make it, or show what it has", run };
