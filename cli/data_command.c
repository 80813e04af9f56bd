// weir data KIND [FILE...] -o OUT: makes a document of data; weir data OUT: shows it.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/number.h"
#include "common/shown.h"
#include "trainer/make_data.h"

enum { MOST_FILES = 16 };

struct data_arguments {
    const char *subject;  // a kind of data, or a document
    char *files[MOST_FILES];
    size_t file_count;
    struct shared_options shared;
};

static const struct argp_option options[] = { OPTION_OUTPUT, { 0 } };

static error_t parse_data_option(int key, char *argument, struct argp_state *state)
{
    struct data_arguments *given = state->input;
    if (key != ARGP_KEY_ARG)
        return shared_option(key, argument, &given->shared, state);
    if (!given->subject)
        given->subject = argument;
    else if (given->file_count == MOST_FILES)
        argp_error(state, "at most %d files", MOST_FILES);
    else
        given->files[given->file_count++] = argument;
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
           "  weir data text /usr/share/common-licenses -o licences.json",
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

static bool show_document(const char *path, struct text *text, struct error *error)
{
    struct sample_data data;
    char size[NUMBER_SIZE];
    if (!sample_data_load(path, &data, error))
        return false;
    shown_add(text, "%s", data.kind);
    text_add(text, ": %" PRIu64 " %s to train on, %" PRIu64 " held out, %s; licence: ", data.train,
             strcmp(data.kind, "text") == 0 ? "tokens" : "samples", data.held, bytes_format(data.bytes, size));
    shown_add(text, "%s", data.licence);
    text_add(text, "\n");
    for (size_t f = 0; f < data.field_count; f++) {
        const struct sample_field *field = &data.fields[f];
        text_add(text, "  ");
        shown_add(text, "%s", field->name);
        text_add(text, " %s", sample_types[field->type]);
        for (size_t k = 0; k < SAMPLE_SIZES && field->sizes[k] > 0; k++)
            text_add(text, "%s%zu", k > 0 ? "x" : " ", field->sizes[k]);
        if (field->classes > 0)
            text_add(text, " below %" PRIu64, field->classes);
        text_add(text, "\n");
    }
    for (size_t f = 0; f < data.field_count; f++)
        show_classes(&data, f, text);
    sample_data_clear(&data);
    return true;
}

static bool is_kind(const char *name)
{
    size_t count;
    const struct data_kind *kinds = data_kinds(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return true;
    return false;
}

static bool work(const struct data_arguments *given, struct text *text, struct error *error)
{
    if (!given->subject) {
        list_kinds(text);
        return true;
    }
    if (!is_kind(given->subject) && given->file_count == 0 && !given->shared.output)
        return show_document(given->subject, text, error);
    if (is_kind(given->subject) && !given->shared.output)
        return error_set(error, "-o says where the document goes; its numbers go beside it");
    return data_make(given->subject, given->files, given->file_count, given->shared.output, error)
        && show_document(given->shared.output, text, error);
}

static int run(int count, char **arguments)
{
    struct data_arguments given = { 0 };
    struct error error = { 0 };
    struct text text = { 0 };
    command_parse(&argp, count, arguments, &given);
    if (work(&given, &text, &error))
        return command_print(&text, NULL, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_data = { "data", "data to train on: make it, or show what it has", run };
