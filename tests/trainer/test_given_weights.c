// Weights from somewhere else: each number finds its place, whatever the file calls it, in whatever precision it is; and
// what is not the model's is refused with file and tensor.
#include "trainer/given_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/output.h"
#include "common/random.h"
#include "tests/test.h"
#include "trainer/model_spec.h"

#define TIED "gpt-nano,tied,width=8,blocks=1,heads=2,sequence=4"
#define UNTIED "gpt-nano,width=8,blocks=1,heads=2,sequence=4"

#define RESIDUAL "resnet18,pixels=8,channels=1,classes=4,stem=3x3,micro_batch=2"

enum { MOST = 128 };

static char folder[] = "/tmp/weir-given-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void remove_file(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void empty_folder(void)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json", "a.safetensors",
                                         "b.safetensors", "config.json" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        remove_file(names[i]);
}

static int remove_folder(void **state)
{
    (void)state;
    empty_folder();
    return rmdir(folder);
}

// --- a file of tensors -------------------------------------------------------------------------

struct made {
    struct model *model;
    struct lasting_model *lasting;
    struct safe_tensor tensors[MOST];
    char names[MOST][100];
    size_t count;
};

// The number that stands at place i of tensor t: halves hold it.
static float number_of(size_t t, size_t i)
{
    return (float)((double)(t % 7 + 1) / 8 + (double)(i % 13));
}

static uint16_t f16_of(float number)  // of those above
{
    int power;
    const float rest = frexpf(number, &power);
    return (uint16_t)((unsigned)(power + 14) << 10 | ((unsigned)(rest * 2048) & 0x3ff));
}

static void put_number(const struct safe_tensor *tensor, void *to, size_t i, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (tensor->type == SAFE_F32)
        ((float *)to)[i] = number;
    else
        ((uint16_t *)to)[i] = tensor->type == SAFE_BF16 ? (uint16_t)(bits >> 16) : f16_of(number);
}

static void add(struct made *made, const char *name, enum safe_type type, size_t rows, size_t columns, size_t t)
{
    struct safe_tensor *tensor = &made->tensors[made->count];
    snprintf(made->names[made->count], sizeof made->names[0], "%s", name);
    made->count++;
    *tensor = (struct safe_tensor){ .type = type, .dimensions = rows > 1 ? 2 : 1,
                                    .shape = { rows > 1 ? rows : columns, rows > 1 ? columns : 0 } };
    void *data = calloc(rows * columns + 1, sizeof(float));
    for (size_t i = 0; i < rows * columns; i++)
        put_number(tensor, data, i, number_of(t, i));
    tensor->data = data;
}

// All of the model's tensors, by the library's names from that place on.
static struct made make(const char *spec, enum safe_type type, size_t names_from)
{
    struct error error = { 0 };
    struct made made = { .model = model_from_spec(spec, PRECISION_FP32, &error) };
    made.lasting = made.model ? lasting_model_create(made.model, OPTIMIZER_SGD, &error) : NULL;
    assert_good(made.lasting, error);
    for (size_t l = 0; l < made.lasting->layer_count; l++) {
        const struct lasting_layer *layer = &made.lasting->layers[l];
        for (size_t t = 0; t < layer->tensor_count + layer->state_count; t++) {
            const struct lasting_tensor *tensor = &layer->tensors[t];  // those of its state follow
            char name[200];
            snprintf(name, sizeof name, "%s.%s", layer->name, tensor->name);
            add(&made, tensor->known_as ? tensor->known_as + names_from : name, type, tensor->rows, tensor->columns,
                (size_t)(tensor - made.lasting->tensors));
        }
    }
    return made;
}

static void save(struct made *made, const char *name, size_t first, size_t end)
{
    struct error error = { 0 };
    struct safe_written written;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (size_t i = first; i < end; i++)
        made->tensors[i].name = made->names[i];
    assert_good(safetensors_save(path, made->tensors + first, end - first, NULL, 0, &written, &error), error);
}

static void clear(struct made *made)
{
    for (size_t i = 0; i < made->count; i++)
        free((void *)(uintptr_t)made->tensors[i].data);
    lasting_model_free(made->lasting);
    model_free(made->model);
    empty_folder();
}

static void is_all_there(const struct made *made, const char *path)
{
    struct error error = { 0 };
    struct given_weights given;
    assert_good(given_weights_load(path, made->model, made->lasting, NULL, &given, &error), error);
    for (size_t l = 0; l < made->lasting->layer_count; l++) {
        const struct lasting_layer *layer = &made->lasting->layers[l];
        assert_true(!given.states[l] == (layer->state_count == 0));
        for (size_t t = 0; t < layer->tensor_count + layer->state_count; t++) {
            const struct lasting_tensor *tensor = &layer->tensors[t];
            const float *numbers = (t < layer->tensor_count ? given.numbers : given.states)[l] + tensor->first;
            for (size_t i = 0; i < tensor->rows * tensor->columns; i++)
                if (numbers[i] != number_of((size_t)(tensor - made->lasting->tensors), i))
                    fail_msg("%s.%s[%zu] is %g", layer->name, tensor->name, i, (double)numbers[i]);
        }
    }
    given_weights_clear(&given);
}

static void is_refused(const struct made *made, const char *sentence)
{
    struct error error = { 0 };
    struct given_weights given;
    assert_false(given_weights_load(folder, made->model, made->lasting, NULL, &given, &error));
    assert_null(given.numbers);
    assert_int_equal(error.kind, ERROR_INPUT);
    if (!strstr(error.text, sentence) || strncmp(error.text, folder, strlen(folder)) != 0)
        fail_msg("\"%s\" instead of \"%s\"", error.text, sentence);
}

// --- what must hold ---------------------------------------------------------------------------

static void each_number_finds_its_place(void **state)
{
    (void)state;
    const enum safe_type types[] = { SAFE_F32, SAFE_BF16, SAFE_F16 };
    for (size_t i = 0; i < 9; i++) {
        const size_t prefix = strlen("transformer.");
        struct made made = make(i % 3 == 2 ? UNTIED : TIED, types[i / 3], i % 3 == 1 ? prefix : 0);
        char file[200];
        save(&made, "model.safetensors", 0, made.count);
        is_all_there(&made, folder);
        snprintf(file, sizeof file, "%s/model.safetensors", folder);
        is_all_there(&made, file);
        clear(&made);
    }
}

static void running_statistics_are_weights_too(void **state)
{
    (void)state;
    struct made made = make(RESIDUAL, SAFE_F32, 0);
    save(&made, "model.safetensors", 0, made.count);
    is_all_there(&made, folder);
    assert_int_equal(made.tensors[4].shape[0], 64);
    assert_string_equal(made.names[4], "norm1.running_variance");
    snprintf(made.names[4], sizeof made.names[0], "%s", made.names[made.count - 1]);
    free((void *)(uintptr_t)made.tensors[4].data);
    made.tensors[4] = made.tensors[--made.count];
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, ": has no tensor norm1.running_variance, which the model has");
    clear(&made);
}

static void save_text(const char *name, const char *text)
{
    struct error error = { 0 };
    struct text index = { 0 };
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    text_add(&index, "%s", text);
    assert_good(text_save(&index, path, &error), error);
    text_clear(&index);
}

static void save_index(const char *text)
{
    save_text("model.safetensors.index.json", text);
}

static void an_index_names_several_files(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_F32, 0);
    save(&made, "a.safetensors", 0, 3);
    save(&made, "b.safetensors", 3, made.count);
    save_index("{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"x\": \"a.safetensors\", \"y\": \"b.safetensors\","
               " \"z\": \"a.safetensors\"}}");
    is_all_there(&made, folder);
    save_index("{\"weight_map\": {\"x\": \"a.safetensors\"}}");
    is_refused(&made, ": has no tensor transformer.h.0.ln_1.bias, which the model has");
    save_index("{\"weight_map\": {\"x\": \"../a.safetensors\"}}");
    is_refused(&made, "index.json: ../a.safetensors is not a safetensors file beside it");
    save_index("{\"weight_map\": {\"x\": 1}}");
    is_refused(&made, "index.json");
    save_index("{}");
    is_refused(&made, "index.json: weight_map: is missing");
    clear(&made);
}

static void what_nothing_trains_is_left_out(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_F32, strlen("transformer."));
    add(&made, "h.0.attn.bias", SAFE_F32, 4, 4, 1);
    add(&made, "h.0.attn.masked_bias", SAFE_F32, 1, 1, 1);
    add(&made, "lm_head.weight", SAFE_F32, 256, 8, 0);  // the embedding's
    save(&made, "model.safetensors", 0, made.count);
    is_all_there(&made, folder);
    clear(&made);
}

static void of_more_positions_the_first_are_taken(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_F32, 0);
    made.tensors[1].shape[0] = 2;  // of four
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, "tensor transformer.wpe.weight is of 2 x 8 numbers in 2 dimensions, and the model's of 4 x 8:");
    add(&made, "transformer.wpe.weight", SAFE_F32, 9, 8, 1);
    free((void *)(uintptr_t)made.tensors[1].data);
    made.tensors[1] = made.tensors[--made.count];
    save(&made, "model.safetensors", 0, made.count);
    is_all_there(&made, folder);
    clear(&made);
}

static void what_is_not_the_models_is_refused(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_F32, 0);
    save(&made, "model.safetensors", 1, made.count);
    is_refused(&made, ": has no tensor transformer.wte.weight, which the model has");
    add(&made, "transformer.h.1.ln_1.bias", SAFE_F32, 1, 8, 1);
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, "model.safetensors: tensor transformer.h.1.ln_1.bias is none of the model");
    snprintf(made.names[made.count - 1], sizeof made.names[0], "h.0.ln_1.bias");
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, "h.0.ln_1.bias is there twice");
    snprintf(made.names[made.count - 1], sizeof made.names[0], "lm_head.weight");
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, "lm_head.weight is not what the embedding has");
    made.count--;
    free((void *)(uintptr_t)made.tensors[made.count].data);
    made.tensors[0].type = SAFE_I32;
    save(&made, "model.safetensors", 0, made.count);
    is_refused(&made, "tensor transformer.wte.weight is of I32, and weights are of F32, BF16 or F16");
    made.tensors[0].type = SAFE_F32;
    empty_folder();
    is_refused(&made, ": has no weights: none of model.safetensors, model.safetensors.index.json and manifest.json");
    clear(&made);
}

// What no shape tells would compute something else of the same numbers.
static void what_computes_otherwise_is_refused(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_F32, 0);
    save(&made, "model.safetensors", 0, made.count);
    save_text("config.json", made.lasting->files[0].text.data);
    is_all_there(&made, folder);
    static const char sizes[] = "\"n_head\": 2, \"n_layer\": 1, \"n_embd\": 8, \"vocab_size\": 256";
    static const struct {
        const char *more, *sentence;  // NULL: taken
    } configs[] = {
        { "", NULL },
        { ", \"model_type\": \"gpt2\", \"n_positions\": 1024, \"beauty\": {\"much\": [1]}", NULL },
        { ", \"layer_norm_epsilon\": 1e-05, \"activation_function\": \"gelu_new\"", NULL },
        { ", \"activation_function\": \"gelu_pytorch_tanh\", \"scale_attn_weights\": true", NULL },
        { ", \"activation_function\": \"relu\"", "config.json: activation_function: is \"relu\", and the model" },
        { ", \"activation_function\": \"gelu\"", "config.json: activation_function: is \"gelu\", and the model" },
        { ", \"layer_norm_epsilon\": 1e-06", "layer_norm_epsilon: is 1e-06, and the model computes by 1e-05" },
        { ", \"scale_attn_by_inverse_layer_idx\": true", "config.json: scale_attn_by_inverse_layer_idx: is true, and" },
        { ", \"scale_attn_weights\": false", "config.json: scale_attn_weights: is false, and the model" },
        { ", \"model_type\": \"llama\"", "config.json: model_type: is \"llama\", and the model computes by \"gpt2\"" },
        { ", \"model_type\": 7", "config.json: model_type: " },
        { ", \"n_embd\": 8", "config.json: " },  // twice
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char text[500];
        snprintf(text, sizeof text, "{%s%s}", sizes, configs[i].more);
        save_text("config.json", text);
        if (configs[i].sentence)
            is_refused(&made, configs[i].sentence);
        else
            is_all_there(&made, folder);
    }
    save_text("config.json", "{\"n_head\": 4, \"n_layer\": 1, \"n_embd\": 8, \"vocab_size\": 256}");
    is_refused(&made, "config.json: n_head: is 4, and the model has heads=2: name the model with the sizes that these");
    save_text("config.json", "{\"n_layer\": 1, \"n_embd\": 8, \"vocab_size\": 256}");
    is_refused(&made, "config.json: has no n_head, which is 12 then, and the model has heads=2");
    save_text("config.json", "[]");
    is_refused(&made, "config.json");
    clear(&made);
}

// Whatever the bytes, they are taken or refused in a sentence.
static void no_bytes_do_harm(void **state)
{
    (void)state;
    struct made made = make(TIED, SAFE_BF16, 0);
    uint64_t seed = 1;
    size_t length, refused = 0;
    char path[200];
    struct error error = { 0 };
    save(&made, "model.safetensors", 0, made.count);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    char *bytes = text_load(path, &length, &error);
    assert_good(bytes, error);
    for (uint64_t trial = 0; trial < test_trials(300, 20000); trial++) {
        const size_t most = trial % 4 == 0 ? length : 2000, at = (size_t)random_below(&seed, most);
        const char was = bytes[at];
        bytes[at] = (char)random_below(&seed, 256);
        const struct output_part part = { bytes, trial % 10 == 9 ? at : length };
        assert_good(output_save_parts(path, &part, 1, &error), error);
        struct error why = { 0 };
        struct given_weights given;
        const bool good = given_weights_load(folder, made.model, made.lasting, NULL, &given, &why);
        assert_true(good || (why.kind == ERROR_INPUT && *why.text));
        refused += !good;
        given_weights_clear(&given);
        bytes[at] = was;
    }
    assert_true(refused > 0);
    free(bytes);
    clear(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_finds_its_place),
        cmocka_unit_test(running_statistics_are_weights_too),
        cmocka_unit_test(an_index_names_several_files),
        cmocka_unit_test(what_nothing_trains_is_left_out),
        cmocka_unit_test(of_more_positions_the_first_are_taken),
        cmocka_unit_test(what_is_not_the_models_is_refused),
        cmocka_unit_test(what_computes_otherwise_is_refused),
        cmocka_unit_test(no_bytes_do_harm),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
