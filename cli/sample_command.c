// weir sample MODEL --checkpoint FOLDER TEXT: what a model writes after a text.

#include <stdlib.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/utf8.h"
#include "trainer/sample.h"

enum { KEY_CHECKPOINT = KEY_OWN, KEY_TOKENS, KEY_TEMPERATURE, KEY_SEED };

struct sample_arguments {
    const char *model, *checkpoint;
    struct sample_settings settings;
};

static const struct argp_option options[] = {
    { "checkpoint", KEY_CHECKPOINT, "FOLDER", 0, "A folder of checkpoints, one step-N of it, or of a model as"
                                                 " transformers writes it", 0 },
    { "tokens", KEY_TOKENS, "N", 0, "How many bytes to write (200)", 0 },
    { "temperature", KEY_TEMPERATURE, "T", 0,
      "1: by the model's probabilities; below: the likely more often; 0: always the likeliest (1)", 0 },
    { "seed", KEY_SEED, "N", 0, "Of what is drawn (1)", 0 },
    { 0 },
};

static double parse_temperature(const char *argument, struct argp_state *state)
{
    char *end;
    const double number = strtod(argument, &end);
    if (end == argument || *end || !(number >= 0 && number <= 100))
        argp_error(state, "--temperature: \"%s\" is not a number from 0 to 100", argument);
    return number;
}

static const struct option_field fields[] = {
    { KEY_CHECKPOINT, OPTION_FIELD(struct sample_arguments, checkpoint) },
    { KEY_TOKENS, OPTION_FIELD(struct sample_arguments, settings.tokens), .least = 1, .most = 1000000 },
    { KEY_SEED, OPTION_FIELD(struct sample_arguments, settings.seed), .most = UINT32_MAX },
    { 0 },
};

static error_t parse_sample_option(int key, char *argument, struct argp_state *state)
{
    struct sample_arguments *given = state->input;
    switch (key) {
    case KEY_TEMPERATURE:
        given->settings.temperature = parse_temperature(argument, state);
        break;
    case ARGP_KEY_ARG:
        if (!given->model)
            given->model = argument;
        else if (!given->settings.prompt)
            given->settings.prompt = argument;
        else
            argp_error(state, "\"%s\" is one text more than there can be: quotes keep words together", argument);
        break;
    case ARGP_KEY_END:
        if (!given->model || !given->checkpoint || !given->settings.prompt)
            argp_error(state, "a model, --checkpoint and a text to begin with are needed");
        if (!*given->settings.prompt)
            argp_error(state, "the text to begin with is empty");
        break;
    default:
        return option_take(options, fields, key, argument, given, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_sample_option,
    .args_doc = "MODEL TEXT",
    .doc = "Writes text as a model of bytes goes on from TEXT, with the weights of a checkpoint, on the CPU. The same"
           " seed writes the same."
           "\vExample:\n  weir sample gpt-nano --checkpoint kept --tokens 80 Licence\n",
};

// Replaces unprintable bytes by '?': a model may write any, and a terminal obeys some.
static void make_harmless(struct text *text)
{
    for (size_t offset = 0; offset < text->length;) {
        const size_t length = utf8_length(text->data + offset, text->length - offset);
        if (!utf8_is_printable(text->data + offset, length) && text->data[offset] != '\n' && text->data[offset] != '\t')
            text->data[offset] = '?';
        offset += utf8_is_printable(text->data + offset, length) ? length : 1;
    }
}

static int run(int count, char **arguments)
{
    struct sample_arguments given = { .settings = { .tokens = 200, .temperature = 1, .seed = 1 } };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct kept_model kept = { 0 };
    struct text text = { 0 };
    text_add(&text, "%s", given.settings.prompt);
    const bool good = kept_model_load(given.checkpoint, given.model, command_say_sentence, &kept, &error)
        && sample_text(&kept, &given.settings, &text, &error);
    kept_model_clear(&kept);
    text_add(&text, "\n");
    if (good && !text.failed && isatty(STDOUT_FILENO))
        make_harmless(&text);
    if (good)
        return command_write(&text, NULL, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_sample = { "sample", "text that a checkpoint's model writes", run };
