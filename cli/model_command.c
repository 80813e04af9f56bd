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
           "Sizes may follow the name. Of texts: micro_batch (sequences in one), sequence (bytes in each), width, "
           "blocks, heads, window (a token of a GPT sees so many: its own and the last), global (beyond the window "
           "it sees so many of the first ones), stride (and of each stride the last ones, as 64/8), dropout, tied or "
           "untied (whether the head's words are the embedding's) and padded (room for "
           "a multiple of 128 words, for the matrix units of GPUs). Of GPTs with experts also: experts, top (how many "
           "a token takes), router (switch, gshard, mixtral, deepseek), capacity (1.25: an expert takes so many times "
           "its even share; dropless: all that come), aux and z (coefficients of the losses), inner (width inside of "
           "an expert), shared (how many such widths the shared expert has), swiglu, exchange (cut where devices "
           "exchange rows, into three layers), and of deepseek groups (8/4: of 8 groups the best 4), scale and "
           "speed. Of pictures: micro_batch, pixels (height and "
           "width), channels, classes, smoothing (of labels), dropout, width (channels of the first block of a "
           "ResNet or U-Net), stem (of a ResNet: 7x7s2, 3x3 or 3x3s2) and fused=no (batch norm, sum and ReLU are "
           "layers of their own). Of clicks: micro_batch (samples), numbers, "
           "slots, rows (of each slot's table, as 100/2000/50, or one number for all), columns (of a table), ids (of a "
           "slot, at most), mean (a slot's vectors are averaged, not summed), weighted (ids have weights), exchange "
           "(devices exchange vectors in a layer of its own) and top (widths of an MLP, as 512/256, before its last "
           "layer); of dlrm also bottom (likewise) and cross with rank "
           "(the crosses of DCN v2 in place of products).\n\n"
           "Examples:\n"
           "  weir model\n"
           "  weir model gpt-nano\n"
           "  weir model gpt-nano,micro_batch=8,blocks=12,dropout=0.1 --json\n"
           "  weir model gpt-nano,sequence=2048,window=256,global=16,stride=128/8\n"
           "  weir model gpt-moe-nano,experts=16,top=4,capacity=dropless\n"
           "  weir model resnet18,pixels=28,channels=1,classes=10,stem=3x3s2\n"
           "  weir model dlrm,numbers=0,rows=943/1682/21,columns=16,ids=4,top=64",
};

// --- the list --------------------------------------------------------------------

static const char *const family_names[] = { [FAMILY_TEXT] = "texts", [FAMILY_PICTURES] = "pictures",
                                            [FAMILY_CLICKS] = "clicks" };
enum { DATA_SIZE = 96 };

// "pixels u8 28 x 28 x 1, label u8 below 10"
static const char *data_format(const struct model *model, char data[DATA_SIZE])
{
    struct model_field fields[MODEL_FIELDS];
    const size_t count = model_fields(model, fields);
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        end += (size_t)snprintf(data + end, DATA_SIZE - end, "%s%s %s", i > 0 ? ", " : "", fields[i].name,
                                fields[i].type);
        for (size_t k = 0; k < MODEL_FIELD_SIZES && fields[i].sizes[k] > 0; k++)
            end += (size_t)snprintf(data + end, DATA_SIZE - end, "%s%zu", k > 0 ? "x" : " ", fields[i].sizes[k]);
        if (fields[i].classes > 0)
            end += (size_t)snprintf(data + end, DATA_SIZE - end, " below %zu", fields[i].classes);
    }
    return data;
}

static bool list_model(const struct model_kind *kind, struct text *text, struct error *error)
{
    char data[DATA_SIZE];
    struct model *model = model_create(kind->name, &(struct model_sizes){ 0 }, error);
    if (!model)
        return false;
    text_add(text, "%-13s %10" PRIu64 "  %11zu  %-46s  %s\n", model->name, model_parameter_count(model),
             model->sizes.micro_batch, data_format(model, data), kind->sentence);
    model_free(model);
    return true;
}

static bool list_models(struct text *text, struct error *error)
{
    size_t count;
    const struct model_kind *kinds = model_kinds(&count);
    for (enum model_family family = FAMILY_TEXT; family <= FAMILY_CLICKS; family++) {
        text_add(text, "%s%-13s %10s  %11s  data of a sample\n", family > FAMILY_TEXT ? "\n" : "", family_names[family],
                 "parameters", "micro-batch");
        for (size_t i = 0; i < count; i++)
            if (model_kind_family(&kinds[i]) == family && !list_model(&kinds[i], text, error))
                return false;
    }
    return true;
}

// --- one model as a table ----------------------------------------------------------

enum { SHAPE_SIZE = 64 };

// A layer's output as [batch][sequence][width], or [batch][height x width][channels]; that of the last is its loss.
static const char *shape_format(const struct layer *layer, char shape[SHAPE_SIZE])
{
    if (layer_data(layer) == DATA_TARGETS)
        return "loss";
    const struct layer_shape *s = &layer->shape;
    snprintf(shape, SHAPE_SIZE, "%zu x %zu x %zu", s->batch, s->sequence, s->out);
    return shape;
}

static void write_table(const struct model *model, const char *name, struct text *text)
{
    char shape[SHAPE_SIZE], number[3][NUMBER_SIZE], data[DATA_SIZE];
    shown_add(text, "%s", name);
    text_add(text, "\n\n");
    text_add(text, "%-20s %-13s %18s %12s %14s %10s %10s\n", "layer", "kind", "hands on", "parameters", "FLOPs forward",
             "output", "saved");
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        const struct layer_sizes sizes = layer_sizes(layer);
        text_add(text, "%-20s %-13s %18s %12" PRIu64 " %14" PRIu64 " %10s %10s\n", layer->name, layer_kind_name(layer),
                 shape_format(layer, shape), layer_parameter_count(layer), sizes.flops,
                 bytes_format(sizes.output_bytes, number[0]), bytes_format(sizes.saved_bytes, number[1]));
    }
    text_add(text, "%-20s %-13s %18s %12" PRIu64 " %14" PRIu64 "\n\n", "total", "", "", model_parameter_count(model),
             model_flops(model));
    if (model->family == FAMILY_TEXT)
        text_add(text, "A micro-batch is %zu sequences of %zu bytes.", model->sizes.micro_batch,
                 model->sizes.sequence);
    else if (model->family == FAMILY_CLICKS)
        text_add(text, "A micro-batch is %zu samples, each with up to %zu id%s in each of %zu slots.",
                 model->sizes.micro_batch, model->sizes.clicks.ids, model->sizes.clicks.ids == 1 ? "" : "s",
                 model->sizes.clicks.slots);
    else
        text_add(text, "A micro-batch is %zu pictures, each of %.3g billion multiply-adds in a forward.",
                 model->sizes.micro_batch, (double)model_flops(model) / 2e9 / (double)model->sizes.micro_batch);
    text_add(text, " It wants %s. Parameters take %s as float", data_format(model, data),
             bytes_format(model_parameter_bytes(model), number[2]));
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
    if (layer->index > 0 && (layer->input_count != 1 || layer->inputs[0] + 1 != layer->index)) {
        json_begin_array(writer, "inputs", JSON_INLINE);
        for (uint32_t i = 0; i < layer->input_count; i++)
            json_put_u64(writer, NULL, layer->inputs[i]);
        json_close(writer);
    }
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

static void write_widths(const char *name, const size_t widths[CLICK_LAYERS], struct json_writer *writer)
{
    json_begin_array(writer, name, JSON_INLINE);
    for (size_t i = 0; i < CLICK_LAYERS && widths[i] > 0; i++)
        json_put_u64(writer, NULL, widths[i]);
    json_close(writer);
}

static void write_click_sizes(const struct click_sizes *sizes, struct json_writer *writer)
{
    json_put_u64(writer, "numbers", sizes->numbers);
    json_put_u64(writer, "slots", sizes->slots);
    json_begin_array(writer, "rows", JSON_INLINE);
    for (size_t slot = 0; slot < sizes->slots; slot++)
        json_put_u64(writer, NULL, sizes->rows[slot]);
    json_close(writer);
    json_put_u64(writer, "columns", sizes->columns);
    json_put_u64(writer, "ids", sizes->ids);
    write_widths("bottom", sizes->bottom, writer);
    write_widths("top", sizes->top, writer);
    json_put_u64(writer, "cross", sizes->cross);
    json_put_u64(writer, "rank", sizes->rank);
    json_put_bool(writer, "mean", sizes->is_mean);
    json_put_bool(writer, "weighted", sizes->is_weighted);
}

static void write_pattern(const struct attention_pattern *pattern, struct json_writer *writer)
{
    if (pattern->window > 0)
        json_put_u64(writer, "window", pattern->window);
    if (pattern->global > 0)
        json_put_u64(writer, "global", pattern->global);
    if (pattern->stride == 0)
        return;
    json_begin_array(writer, "stride", JSON_INLINE);
    json_put_u64(writer, NULL, pattern->stride);
    json_put_u64(writer, NULL, pattern->block);
    json_close(writer);
}

static void write_experts(const struct model *model, struct json_writer *writer)
{
    const struct expert_sizes *sizes = &model->sizes.experts;
    if (sizes->experts == 0)
        return;
    json_begin_object(writer, "experts", JSON_INLINE);
    json_put_u64(writer, "experts", sizes->experts);
    json_put_u64(writer, "top", sizes->top);
    json_put_string(writer, "router", router_name(sizes->router));
    json_put_fraction(writer, "capacity", sizes->capacity);
    json_put_fraction(writer, "aux", (double)sizes->auxiliary);
    json_put_fraction(writer, "z", (double)sizes->z);
    json_put_u64(writer, "shared", sizes->shared);
    json_put_bool(writer, "swiglu", sizes->is_swiglu);
    if (model->sizes.has_exchange)
        json_put_bool(writer, "exchange", true);
    if (sizes->router == ROUTER_DEEPSEEK) {
        json_begin_array(writer, "groups", JSON_INLINE);
        json_put_u64(writer, NULL, sizes->groups);
        json_put_u64(writer, NULL, sizes->best_groups);
        json_close(writer);
        json_put_fraction(writer, "scale", (double)sizes->scale);
        json_put_fraction(writer, "speed", (double)sizes->speed);
    }
    json_close(writer);
}

static void write_sizes(const struct model *model, struct json_writer *writer)
{
    const struct model_sizes *sizes = &model->sizes;
    if (model->family == FAMILY_TEXT) {
        json_put_u64(writer, "sequence", sizes->sequence);
        json_put_u64(writer, "width", sizes->width);
        json_put_u64(writer, "blocks", sizes->blocks);
        json_put_u64(writer, "heads", sizes->heads);
        write_pattern(&sizes->pattern, writer);
        write_experts(model, writer);
        json_put_fraction(writer, "dropout", (double)sizes->dropout);
        json_put_u64(writer, "vocabulary", model->vocabulary);
        return;
    }
    if (model->family == FAMILY_CLICKS) {
        write_click_sizes(&sizes->clicks, writer);
        if (sizes->has_exchange)
            json_put_bool(writer, "exchange", true);
        return;
    }
    json_put_u64(writer, "pixels", sizes->pixels);
    json_put_u64(writer, "channels", sizes->channels);
    json_put_u64(writer, "classes", sizes->classes);
    if (sizes->width > 0)
        json_put_u64(writer, "width", sizes->width);
    if (sizes->blocks > 0)
        json_put_u64(writer, "blocks", sizes->blocks);
    json_put_fraction(writer, "smoothing", (double)sizes->smoothing);
    json_put_bool(writer, "fused", !sizes->unfused);
}

static void write_fields(const struct model *model, struct json_writer *writer)
{
    struct model_field fields[MODEL_FIELDS];
    const size_t count = model_fields(model, fields);
    json_begin_array(writer, "fields", JSON_LINES);
    for (size_t i = 0; i < count; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "name", fields[i].name);
        json_put_string(writer, "type", fields[i].type);
        json_begin_array(writer, "sizes", JSON_INLINE);
        for (size_t k = 0; k < MODEL_FIELD_SIZES && fields[i].sizes[k] > 0; k++)
            json_put_u64(writer, NULL, fields[i].sizes[k]);
        json_close(writer);
        if (fields[i].classes > 0)
            json_put_u64(writer, "classes", fields[i].classes);
        json_close(writer);
    }
    json_close(writer);
}

static void write_document(const struct model *model, const char *name, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.model");
    json_put_string(&writer, "model", name);
    json_put_u64(&writer, "micro_batch", model->sizes.micro_batch);
    write_sizes(model, &writer);
    write_fields(model, &writer);
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
