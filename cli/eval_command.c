// weir eval MODEL --checkpoint FOLDER --data D: the loss of saved weights on held-out text.

#include <math.h>

#include "cli/command.h"
#include "cli/held_text.h"
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
    { "data", KEY_DATA, "D", 0, "A file, or a folder of files, of text", 0 },
    OPTION_DEVICE,
    { 0 },
};

static error_t parse_eval_option(int key, char *argument, struct argp_state *state)
{
    struct eval_arguments *given = state->input;
    switch (key) {
    case KEY_CHECKPOINT:
        given->checkpoint = argument;
        break;
    case KEY_DATA:
        given->data = argument;
        break;
    case KEY_DEVICE:
        given->device = argument;
        break;
    case ARGP_KEY_ARG:
        option_argument(&given->model, argument, "model", state);
        break;
    case ARGP_KEY_END:
        if (!given->model || !given->checkpoint || !given->data)
            argp_error(state, "a model, --checkpoint and --data are needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_eval_option,
    .args_doc = "MODEL",
    .doc = "Measures the weights of a checkpoint on held-out text, as weir train does at the end of a run: every tenth"
           " 4,096 tokens of the data, which nothing was trained on if it is the same data. Of several checkpoints the"
           " newest is taken that is whole. A folder may also be one of Python's transformers (GPT2LMHeadModel, with"
           " model.safetensors), of a model with the sizes of MODEL."
           "\vExample:\n  weir eval gpt-nano --checkpoint kept --data /usr/share/common-licenses\n",
};

static void say(const char *sentence)
{
    command_say("%s", sentence);
}

// A checkpoint's running statistics are not measured here.
static bool is_of_text(const struct kept_model *kept, struct error *error)
{
    return kept->model->family == FAMILY_TEXT
        || error_set(error, "model %s is of pictures, and weir eval measures models of texts: weir train measures held-out"
                     " pictures as it trains (--eval-every)", kept->model->name);
}

static bool measure(const struct eval_arguments *given, const struct kept_model *kept, const struct text_data *data,
                    double *bits, struct error *error)
{
    const enum precision precision = kept->model->sizes.precision;
    struct held_out held = { 0 };
    if (data->vocabulary > kept->model->vocabulary)
        return error_named(error, "%s: the text is of a vocabulary of %u tokens, and model %s has one of %zu",
                           given->data, data->vocabulary, kept->model->name, kept->model->vocabulary);
    struct device *device = device_open(given->device ? given->device : device_name_in(precision), error);
    bool good = device
        && (device_precision(device) == precision
            || error_named(error, "--device %s is in %s, and the weights in %s", given->device,
                           precision_name(device_precision(device)), precision_name(precision)))
        && held_out_open(&held, kept->model, device, data, 0, error);
    if (good)
        kept_model_put(kept, held.twin);
    good = good && held_out_bits(&held, bits, error);
    held_out_close(&held);
    device_close(device);
    return good && (isfinite(*bits) || error_set_kind(error, ERROR_ANSWER, "the loss on held-out text is no number"));
}

static int run(int count, char **arguments)
{
    struct eval_arguments given = { 0 };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct kept_model kept = { 0 };
    struct text_data data = { 0 };
    struct text text = { 0 };
    double bits = 0;
    const bool good = text_data_load(given.data, &data, &error)
        && kept_model_load(given.checkpoint, given.model, say, &kept, &error)
        && is_of_text(&kept, &error)
        && measure(&given, &kept, &data, &bits, &error);
    if (good) {
        const bool are_bytes = data.vocabulary <= 256;
        text_add(&text, "%s", kept.path);
        if (kept.manifest)
            text_add(&text, ", step %llu of %llu", (unsigned long long)kept.manifest->step,
                     (unsigned long long)kept.manifest->steps);
        text_add(&text, "\nloss %.6f nats per token\n", bits * log(2));
        held_text_say(bits, are_bytes ? ngram_bits_per_byte(&data, 0) : NAN,
                      are_bytes ? ngram_bits_per_byte(&data, 1) : NAN, &text);
    }
    kept_model_clear(&kept);
    text_data_clear(&data);
    return good ? command_print(&text, NULL, 0) : command_fail(&error);
}

const struct command command_eval = { "eval", "the loss of a checkpoint on held-out text", run };
