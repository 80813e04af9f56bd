// Every node of PipeDream's published graphs of pictures is a layer of the built-in model: with its bytes of parameters
// and of activations.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "tests/test.h"

#define PUBLISHED "../shared/data/partition/pipedream/"
enum { MOST_NODES = 512, NODE_SIZE = 96 };

struct nodes {
    size_t count;
    char at[MOST_NODES][NODE_SIZE];  // "Conv2d 93184 198246400"
};

static const struct row {
    const char *model;
    size_t micro_batch, layers;  // the layers are all nodes but the input, and the loss
    uint64_t parameters;
} rows[] = {
    { "alexnet", 256, 20, 61100840 },
    { "vgg16", 128, 38, 138357544 },
    { "resnet50", 128, 174, 25557032 },
    { "inception_v3", 128, 321, 27161264 },
};

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void put(struct nodes *nodes, const char *kind, unsigned long long parameters, unsigned long long activations)
{
    assert_true(nodes->count < MOST_NODES);
    snprintf(nodes->at[nodes->count++], NODE_SIZE, "%.40s %llu %llu", kind, parameters, activations);
}

// Inputs, and changes of shape alone, are no layers.
static bool is_layer(const char *kind)
{
    return strcmp(kind, "Input") != 0 && strcmp(kind, "View") != 0 && strcmp(kind, "Size") != 0;
}

static bool read_published(const char *model, struct nodes *nodes)
{
    char path[128], line[1024];
    snprintf(path, sizeof path, PUBLISHED "%s.graph.txt", model);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char kind[NODE_SIZE];
        double activations, parameters;
        const char *numbers = strstr(line, "activation_size=");
        if (!numbers)
            continue;
        assert_int_equal(sscanf(line, "node%*u -- %40[A-Za-z0-9]", kind), 1);
        assert_int_equal(sscanf(numbers, "activation_size=%lf, parameter_size=%lf", &activations, &parameters), 2);
        if (is_layer(kind))
            put(nodes, kind, (unsigned long long)parameters, (unsigned long long)activations);
    }
    if (file)
        fclose(file);
    qsort(nodes->at, nodes->count, NODE_SIZE, by_text);
    return file != NULL;
}

static const char *torch_kind(const struct layer *layer)
{
    static const char *const names[][2] = {
        { "convolution", "Conv2d" },   { "batch-norm", "BatchNorm2d" },  { "relu", "ReLU" }, { "linear", "Linear" },
        { "max-pool", "MaxPool2d" },   { "average-pool", "AvgPool2d" },  { "sum", "Add" },   { "concat", "Concat" },
        { "dropout", "Dropout" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(layer_kind_name(layer), names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

static void list_layers(const struct model *model, struct nodes *nodes)
{
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const uint64_t numbers = layer->shape.batch * layer->shape.sequence * layer->shape.out;
        if (torch_kind(layer))
            put(nodes, torch_kind(layer), 4 * layer_parameter_count(layer), 4 * numbers);
        else
            assert_true(layer_data(layer) != DATA_NONE);
    }
    qsort(nodes->at, nodes->count, NODE_SIZE, by_text);
}

static struct model *model_of(const struct row *row, bool unfused)
{
    struct error error = { 0 };
    const struct model_sizes sizes = { .micro_batch = row->micro_batch, .unfused = unfused };
    struct model *model = model_create(row->model, &sizes, &error);
    assert_good(model, error);
    return model;
}

static void every_published_node_is_a_layer(void **state)
{
    const struct row *row = *state;
    static struct nodes published, layers;
    published.count = layers.count = 0;
    struct model *model = model_of(row, true);
    list_layers(model, &layers);
    assert_int_equal(layers.count, row->layers);
    const bool is_here = read_published(row->model, &published);
    if (!is_here) {
        model_free(model);
        TEST_SKIP("no " PUBLISHED " here");
    }
    for (size_t i = 0; i < published.count || i < layers.count; i++)
        assert_string_equal(i < layers.count ? layers.at[i] : "nothing",
                            i < published.count ? published.at[i] : "nothing");
    model_free(model);
}

// What is fused has the parameters of its parts, and hands on as much as the last of them.
static void a_fused_model_has_the_same_parameters(void **state)
{
    const struct row *row = *state;
    struct model *fused = model_of(row, false), *unfused = model_of(row, true);
    assert_int_equal(model_parameter_count(fused), row->parameters);
    assert_int_equal(model_parameter_count(unfused), row->parameters);
    assert_int_equal(model_flops(fused), model_flops(unfused));
    size_t u = 0;
    for (size_t l = 0; l < fused->layer_count; l++, u++) {
        const struct layer *layer = &fused->layers[l];
        while (strcmp(unfused->layers[u].name, layer->name) != 0) {  // parts without parameters
            assert_int_equal(layer_parameter_count(&unfused->layers[u]), 0);
            u++;
        }
        assert_int_equal(layer_parameter_count(&unfused->layers[u]), layer_parameter_count(layer));
        assert_int_equal(layer_sizes(&unfused->layers[u]).output_bytes, layer_sizes(layer).output_bytes);
    }
    assert_int_equal(u, unfused->layer_count);
    model_free(fused);
    model_free(unfused);
}

int main(void)
{
    struct CMUnitTest tests[2 * sizeof rows / sizeof rows[0]];
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *row = (void *)(uintptr_t)&rows[i];
        tests[count++] = (struct CMUnitTest){ rows[i].model, every_published_node_is_a_layer, NULL, NULL, row };
        tests[count++] = (struct CMUnitTest){ "a fused model has the same parameters",
                                              a_fused_model_has_the_same_parameters, NULL, NULL, row };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
