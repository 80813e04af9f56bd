// weir model [NAME]: lists the built-in models, or the layers of one.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/options.h"
#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "trainer/model_spec.h"

struct model_arguments {
    const char *name;
    struct shared_options shared;
};

static const struct argp_option options[] = { OPTION_PAD_VOCABULARY, OPTION_JSON, OPTION_OUTPUT, { 0 } };

static error_t parse_model_option(int key, char *argument, struct argp_state *state)
{
    struct model_arguments *given = state->input;
    if (key != ARGP_KEY_ARG)
        return shared_option(key, argument, &given->shared, state);
    option_argument(&given->name, argument, "model", state);
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_model_option,
    .args_doc = "[NAME]",
    .doc = "Lists the built-in models, or the layers of one: what each hands on, its parameters and its floating-point "
           "operations in a forward of one micro-batch (a backward does twice as many).\v"
           "Sizes may follow the name: micro_batch (sequences in one), sequence (bytes in each), width, blocks, heads, "
           "dropout, tied or untied (whether the head's words are the embedding's) and padded (room for a multiple of "
           "128 words, for the matrix units of GPUs).\n\n"
           "Examples:\n"
           "  weir model\n"
           "  weir model gpt-nano\n"
           "  weir model gpt-nano,micro_batch=8,blocks=12,dropout=0.1 --json",
};

// --- the list --------------------------------------------------------------------

static bool list_models(struct text *text, struct error *error)
{
    size_t count;
    const struct model_kind *kinds = model_kinds(&count);
    text_add(text, "%-10s %10s  %11s  %8s  %5s  %6s  %5s\n", "model", "parameters", "micro-batch", "sequence", "width",
             "blocks", "heads");
    for (size_t i = 0; i < count; i++) {
        struct model *model = model_create(kinds[i].name, &(struct model_sizes){ 0 }, error);
        if (!model)
            return false;
        const struct model_sizes *sizes = &model->sizes;
        text_add(text, "%-10s %10" PRIu64 "  %11zu  %8zu  %5zu  %6zu  %5zu  %s\n", model->name,
                 model_parameter_count(model), sizes->micro_batch, sizes->sequence, sizes->width, sizes->blocks,
                 sizes->heads, kinds[i].sentence);
        model_free(model);
    }
    return true;
}

// --- one model as a table ----------------------------------------------------------

enum { SHAPE_SIZE = 64 };

// A layer's output as [batch][sequence][width]; the output of a head is its loss.
static const char *shape_format(const struct layer *layer, char shape[SHAPE_SIZE])
{
    if (layer_data(layer) == DATA_TARGETS)
        return "loss";
    snprintf(shape, SHAPE_SIZE, "%zu x %zu x %zu", layer->shape.batch, layer->shape.sequence, layer->shape.out);
    return shape;
}

static void write_table(const struct model *model, const char *name, struct text *text)
{
    char shape[SHAPE_SIZE], number[3][NUMBER_SIZE];
    shown_add(text, "%s", name);
    text_add(text, "\n\n");
    text_add(text, "%-18s %-10s %16s %12s %13s %10s %10s\n", "layer", "kind", "hands on", "parameters", "FLOPs forward",
             "output", "saved");
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        const struct layer_sizes sizes = layer_sizes(layer);
        text_add(text, "%-18s %-10s %16s %12" PRIu64 " %13" PRIu64 " %10s %10s\n", layer->name, layer_kind_name(layer),
                 shape_format(layer, shape), layer_parameter_count(layer), sizes.flops,
                 bytes_format(sizes.output_bytes, number[0]), bytes_format(sizes.saved_bytes, number[1]));
    }
    text_add(text, "%-18s %-10s %16s %12" PRIu64 " %13" PRIu64 "\n\n", "total", "", "", model_parameter_count(model),
             model_flops(model));
    text_add(text, "A micro-batch is %zu sequences of %zu bytes. Parameters take %s as float", model->sizes.micro_batch,
             model->sizes.sequence, bytes_format(model_parameter_bytes(model), number[2]));
    if (model->padding > 0)
        text_add(text, ", with the room of %zu words that are padding", model->padding);
    text_add(text, ".\n");
}

// --- one model as a document ---------------------------------------------------------

static void write_tensors(const struct layer *layer, struct json_writer *writer)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    json_begin_array(writer, "tensors", JSON_LINES);
    for (size_t i = 0; i < count; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "name", tensors[i].name);
        json_put_u64(writer, "rows", tensors[i].rows);
        json_put_u64(writer, "columns", tensors[i].columns);
        json_put_u64(writer, "offset_bytes", tensors[i].offset * precision_bytes(layer->shape.precision));
        json_put_bool(writer, "decays", tensors[i].decays);
        json_close(writer);
    }
    json_close(writer);
}

static void write_layer(const struct layer *layer, struct json_writer *writer)
{
    static const char *const input_words[] = { "none", "weight", "both" };  // as in profiles
    const struct layer_sizes sizes = layer_sizes(layer);
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "name", layer->name);
    json_put_string(writer, "kind", layer_kind_name(layer));
    json_put_u64(writer, "parameters", layer_parameter_count(layer));
    json_put_u64(writer, "parameter_bytes", sizes.parameter_bytes);
    json_put_u64(writer, "output_bytes", sizes.output_bytes);
    json_put_u64(writer, "saved_bytes", sizes.saved_bytes);
    json_put_string(writer, "input_kept", input_words[sizes.input]);
    json_put_u64(writer, "held_for_weight_bytes", sizes.held_for_weight_bytes);
    json_put_u64(writer, "workspace_bytes", sizes.workspace_bytes);
    json_put_u64(writer, "backward_workspace_bytes", sizes.backward_workspace_bytes);
    json_put_u64(writer, "flops", sizes.flops);
    write_tensors(layer, writer);
    json_close(writer);
}

static void write_document(const struct model *model, const char *name, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.model");
    json_put_string(&writer, "model", name);
    json_put_u64(&writer, "micro_batch", model->sizes.micro_batch);
    json_put_u64(&writer, "sequence", model->sizes.sequence);
    json_put_u64(&writer, "width", model->sizes.width);
    json_put_u64(&writer, "blocks", model->sizes.blocks);
    json_put_u64(&writer, "heads", model->sizes.heads);
    json_put_fraction(&writer, "dropout", (double)model->sizes.dropout);
    json_put_u64(&writer, "vocabulary", model->vocabulary);
    json_put_u64(&writer, "parameters", model_parameter_count(model));
    json_put_u64(&writer, "flops", model_flops(model));
    json_begin_array(&writer, "layers", JSON_LINES);
    for (size_t i = 0; i < model->layer_count; i++)
        write_layer(&model->layers[i], &writer);
    json_close(&writer);
    json_close(&writer);
}

static bool describe_model(const struct model_arguments *given, struct text *text, struct error *error)
{
    char *spec = model_spec_named(given->name, given->shared.pad_vocabulary, error);
    struct model *model = spec ? model_from_spec(spec, PRECISION_FP32, error) : NULL;
    if (model && given->shared.json)
        write_document(model, spec, text);
    else if (model)
        write_table(model, spec, text);
    const bool good = model != NULL;
    model_free(model);
    free(spec);
    return good;
}

static int run(int count, char **arguments)
{
    struct model_arguments given = { 0 };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct text text = { 0 };
    if (given.shared.json && !given.name)
        error_set(&error, "--json describes one model; name it (weir model lists them)");
    else if (given.shared.pad_vocabulary && !given.name)
        error_set(&error, "--pad-vocabulary pads one model; name it (weir model lists them)");
    else if (given.name ? describe_model(&given, &text, &error) : list_models(&text, &error))
        return (given.shared.json ? command_write : command_print)(&text, given.shared.output, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_model = { "model", "the built-in models, or one model's layers", run };
