// weir eval MODEL --checkpoint FOLDER --data D: the loss of saved weights on held-out text or pictures.

#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "cli/held_lines.h"
#include "cli/options.h"
#include "device/device_names.h"
#include "trainer/held_out.h"
#include "trainer/kept_model.h"
#include "trainer/ngram.h"

enum { KEY_CHECKPOINT = KEY_OWN, KEY_DATA };

struct eval_arguments {
    const char *model, *checkpoint, *data, *device;
};

static const struct argp_option options[] = {
    { "checkpoint", KEY_CHECKPOINT, "FOLDER", 0, "A folder of checkpoints, one step-N of it, or of a model as"
                                                 " transformers writes it", 0 },
    { "data", KEY_DATA, "D", 0, "A document of weir data; or a file, or a folder of files, of text", 0 },
    OPTION_DEVICE,
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_CHECKPOINT, OPTION_FIELD(struct eval_arguments, checkpoint) },
    { KEY_DATA, OPTION_FIELD(struct eval_arguments, data) },
    { KEY_DEVICE, OPTION_FIELD(struct eval_arguments, device) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct eval_arguments, model), .what = "model" },
    { 0 },
};

static error_t parse_eval_option(int key, char *argument, struct argp_state *state)
{
    struct eval_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_END:
        if (!given->model || !given->checkpoint || !given->data)
            argp_error(state, "a model, --checkpoint and --data are needed");
        break;
    default:
        return option_take(options, fields, key, argument, given, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_eval_option,
    .args_doc = "MODEL",
    .doc = "Measures the weights of a checkpoint on what was held out, as weir train does: of a text every tenth 4,096"
           " tokens, which nothing was trained on if it is the same data; or the held-out pictures, by the"
           " checkpoint's running statistics. Of several checkpoints the newest is taken that is whole. A folder may"
           " also be one of Python's transformers (GPT2LMHeadModel, with model.safetensors), of a model with the sizes"
           " of MODEL."
           "\vExamples:\n  weir eval gpt-nano --checkpoint kept --data /usr/share/common-licenses\n"
           "  weir eval fashion-cnn --checkpoint kept --data fashion.json\n",
};

// What is measured on: a text, which may come from a document, or pictures.
struct held_data {
    struct text_data text;
    struct sample_data samples;
    bool are_pictures;
};

static bool load_data(const char *path, struct held_data *data, struct error *error)
{
    if (!sample_data_is(path))
        return text_data_load(path, &data->text, error);
    if (!sample_data_load(path, &data->samples, error))
        return false;
    data->are_pictures = strcmp(data->samples.kind, "text") != 0;
    return data->are_pictures || text_data_take(&data->samples, &data->text, error);
}

static bool fits_model(const struct eval_arguments *given, const struct held_data *data, const struct model *model,
                       struct error *error)
{
    if (data->are_pictures)
        return sample_data_fits(&data->samples, model, error) || error_name(error, "%s", given->data);
    if (model->family != FAMILY_TEXT)
        return error_named(error, "%s: model %s is of %s, and the data are a text: make data of its kind"
                           " (weir data)", given->data, model->name,
                           model->family == FAMILY_PICTURES ? "pictures" : "clicks");
    return data->text.vocabulary <= model->vocabulary
        || error_named(error, "%s: the text is of a vocabulary of %u tokens, and model %s has one of %zu", given->data,
                       data->text.vocabulary, model->name, model->vocabulary);
}

static struct device *open_device(const struct eval_arguments *given, enum precision precision, struct error *error)
{
    struct device *device = device_open(given->device ? given->device : device_name_in(precision), error);
    if (!device || device_precision(device) == precision)
        return device;
    error_named(error, "--device %s is in %s, and the weights in %s", given->device,
                precision_name(device_precision(device)), precision_name(precision));
    device_close(device);
    return NULL;
}

static bool measure_text(const struct kept_model *kept, const struct text_data *data, struct device *device,
                         double *bits, struct error *error)
{
    struct held_out held = { 0 };
    bool good = held_out_open(&held, kept->model, device, data, 0, error);
    if (good)
        kept_model_put(kept, held.twin);
    good = good && held_out_bits(&held, bits, error);
    held_out_close(&held);
    return good;
}

static bool measure_pictures(const struct kept_model *kept, const struct sample_data *data, struct device *device,
                             struct sample_score *score, struct error *error)
{
    struct held_twin twin = { 0 };
    struct predictions held = { .model = kept->model, .data = data };
    bool good = held_twin_open(&twin, kept->model, data, device, error);
    if (good)
        kept_model_put(kept, twin.twin);
    held.twin = twin.twin;
    good = good && held_samples_open(&held, error) && held_samples_score(&held, score, error);
    predictions_close(&held);
    held_twin_close(&twin);
    return good;
}

static bool measure(const struct eval_arguments *given, const struct kept_model *kept, const struct held_data *data,
                    struct sample_score *score, struct error *error)
{
    struct device *device = fits_model(given, data, kept->model, error)
                              ? open_device(given, kept->model->sizes.precision, error) : NULL;
    const bool good = device
        && (data->are_pictures ? measure_pictures(kept, &data->samples, device, score, error)
                               : measure_text(kept, &data->text, device, &score->bits, error));
    device_close(device);
    return good && (isfinite(score->bits)
                    || error_set_kind(error, ERROR_ANSWER, "the loss on held-out data is no number"));
}

// The line that ends a training, beside what simple models reach. Logistic regression depends on the run's seed.
static bool compare(const struct kept_model *kept, const struct held_data *data, const struct sample_score *score,
                    struct text *text, struct error *error)
{
    const bool are_bytes = data->text.vocabulary <= 256;
    struct simple_scores simple;
    if (!data->are_pictures)
        held_text_say(score->bits, are_bytes ? ngram_bits_per_byte(&data->text, 0) : NAN,
                      are_bytes ? ngram_bits_per_byte(&data->text, 1) : NAN, text);
    else if (!held_samples_simple(&data->samples, kept->manifest ? kept->manifest->seed : 1, &simple, error))
        return false;
    else
        held_samples_say(score, &simple, text);
    return true;
}

static int run(int count, char **arguments)
{
    struct eval_arguments given = { 0 };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct kept_model kept = { 0 };
    struct held_data data = { .are_pictures = false };
    struct text text = { 0 };
    struct sample_score score = { 0 };
    bool good = load_data(given.data, &data, &error)
        && kept_model_load(given.checkpoint, given.model, command_say_sentence, &kept, &error)
        && measure(&given, &kept, &data, &score, &error);
    if (good) {
        text_add(&text, "%s", kept.path);
        if (kept.manifest)
            text_add(&text, ", step %llu of %llu", (unsigned long long)kept.manifest->step,
                     (unsigned long long)kept.manifest->steps);
        text_add(&text, "\nloss %.6f nats per %s\n", score.bits * log(2), data.are_pictures ? "target" : "token");
        good = compare(&kept, &data, &score, &text, &error);
    }
    kept_model_clear(&kept);
    text_data_clear(&data.text);
    sample_data_clear(&data.samples);
    if (good)
        return command_print(&text, NULL, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_eval = { "eval", "the loss of a checkpoint on held-out data", run };
