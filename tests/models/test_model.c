#include "models/model.h"

#include <string.h>

#include "tests/test.h"

static void gpt_nano_has_its_layers_in_order(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_create("gpt-nano", &(struct model_sizes){ 0 }, &error);
    assert_good(model, error);
    assert_int_equal(model->layer_count, 10);
    const char *const names[] = { "embedding", "block0.attention", "block0.mlp", "block1.attention", "block1.mlp",
                                  "block2.attention", "block2.mlp", "block3.attention", "block3.mlp", "head" };
    for (size_t i = 0; i < 10; i++) {
        assert_string_equal(model->layers[i].name, names[i]);
        assert_int_equal(model->layers[i].index, i);
    }
    assert_int_equal(model->sizes.micro_batch * model->sizes.sequence, 512);
    model_free(model);
}

// The same models in PyTorch (bench/peers/train_pytorch.py) have as many parameters.
static struct count_row {
    const char *name;
    uint64_t parameters;
} count_rows[] = { { "gpt-nano", 875264 }, { "gpt-10m", 10893312 }, { "gpt2", 124439808 },
                   { "mlp", 3 * 129 * 128 + (512 + 64 + 2) * 128 },
                   { "resnet18", 11689512 }, { "resnet152", 60192808 }, { "fashion-cnn", 206922 },
                   { "fashion-mlp", 785 * 256 + 257 * 128 + 1290 },
                   { "dlrm", 26 * 1000 * 16 + 14 * 64 + 65 * 32 + 33 * 16 + 368 * 128 + 129 * 64 + 65 },
                   { "wide-and-deep", 26 * 1000 * 17 + 13 + 430 * 128 + 129 * 64 + 65 },
                   { "deepfm", 26 * 1000 * 17 + 13 + 430 * 128 + 129 * 64 + 65 },
                   // Two of four MLPs of gpt-nano are experts, half as wide, behind a norm and a router.
                   { "gpt-moe-nano", 875264 - 2 * 131968 + 2 * (256 + 128 * 8 + 8 * (129 * 256 + 257 * 128)) } };

static void a_model_has_its_number_of_parameters(void **state)
{
    const struct count_row *row = *state;
    struct error error = { 0 };
    struct model *model = model_create(row->name, &(struct model_sizes){ 0 }, &error);
    assert_good(model, error);
    assert_int_equal(model_parameter_count(model), row->parameters);
    assert_true(model_parameter_bytes(model) >= row->parameters * sizeof(float));
    model_free(model);
}

// Convolutions and their batch norms, by loops over the blocks.
static void a_narrow_resnet_has_its_number_of_parameters(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_create("resnet18", &(struct model_sizes){ .width = 16 }, &error);
    assert_good(model, error);
    uint64_t count = 49 * 3 * 16 + 2 * 16, in = 16;
    for (uint64_t out = 16; out <= 128; out *= 2) {
        count += 9 * out * (in + 3 * out) + 8 * out + (in < out ? out * (in + 2) : 0);
        in = out;
    }
    assert_int_equal(model_parameter_count(model), count + 129 * 1000);
    model_free(model);
}

static void flops_are_those_of_the_products(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct model_sizes sizes = { .micro_batch = 1, .sequence = 2, .width = 4, .blocks = 1, .heads = 2 };
    struct model *model = model_create("gpt-nano", &sizes, &error);
    assert_good(model, error);
    // Two rows: 12 x 4 x 4 weights in the block and 4 x 256 in the head, twice each;
    // attention's two products over the causal half of 2 x 2, 4 wide.
    assert_int_equal(model_flops(model), 2 * 2 * (12 * 4 * 4 + 4 * 256) + 2 * 2 * 2 * 4);
    model_free(model);
}

static uint64_t flops_of(struct attention_pattern pattern)
{
    struct error error = { 0 };
    const struct model_sizes sizes = { .micro_batch = 3, .sequence = 20, .width = 8, .blocks = 1, .heads = 2,
                                       .pattern = pattern };
    struct model *model = model_create("gpt-nano", &sizes, &error);
    assert_good(model, error);
    const uint64_t flops = model_flops(model);
    model_free(model);
    return flops;
}

// Beyond the products with weights, 4 for each pair and number of a row; without a pattern there are 20 * 20 / 2 pairs.
static void flops_count_the_pairs_that_a_pattern_sees(void **state)
{
    (void)state;
    const uint64_t rest = flops_of((struct attention_pattern){ 0 }) - 4 * 3 * 8 * 200;
    assert_int_equal(flops_of((struct attention_pattern){ .window = 1 }) - rest, 4 * 3 * 8 * 20);
    assert_int_equal(flops_of((struct attention_pattern){ .window = 4 }) - rest, 4 * 3 * 8 * (1 + 2 + 3 + 17 * 4));
    // Two tokens more for each query but the first two, of which one has one.
    assert_int_equal(flops_of((struct attention_pattern){ .window = 1, .global = 2 }) - rest,
                     4 * 3 * 8 * (20 + 1 + 18 * 2));
    assert_int_equal(flops_of((struct attention_pattern){ .window = 20, .global = 2 }) - rest, 4 * 3 * 8 * 200);
}

static struct padded_row {
    const char *name, *model;
    enum tying tying;
    uint64_t embedding_bytes, head_bytes;  // more than without
} padded_rows[] = {
    { "47 words make GPT-2's a multiple of 128", "gpt2", TYING_TIED, 47 * 768 * 4, 0 },
    { "a head of its own has them too", "gpt2", TYING_UNTIED, 47 * 768 * 4, 47 * 768 * 4 },
    { "bytes need no padding", "gpt-nano", TYING_OWN, 0, 0 },
};

// Padding takes room and counts for nothing else.
static void a_padded_model_has_room_for_more_words(void **state)
{
    const struct padded_row *row = *state;
    struct error error = { 0 };
    struct model *plain = model_create(row->model, &(struct model_sizes){ .tying = row->tying }, &error);
    struct model *padded =
        model_create(row->model, &(struct model_sizes){ .tying = row->tying, .padded = true }, &error);
    assert_good(plain && padded, error);
    assert_int_equal(padded->vocabulary, plain->vocabulary);
    assert_int_equal(model_parameter_count(padded), model_parameter_count(plain));
    assert_int_equal(model_flops(padded), model_flops(plain));
    for (size_t i = 0; i < plain->layer_count; i++) {
        const uint64_t more = i == 0 ? row->embedding_bytes : i + 1 == plain->layer_count ? row->head_bytes : 0;
        const uint64_t bytes = layer_sizes(&plain->layers[i]).parameter_bytes;
        assert_int_equal(layer_sizes(&padded->layers[i]).parameter_bytes, bytes + more);
    }
    model_free(plain);
    model_free(padded);
}

static struct bad_row {
    const char *name;
    const char *model;
    struct model_sizes sizes;
    const char *sentence;
} bad_rows[] = {
    { "an unknown model is refused", "gpt-5", { 0 },
      "there is no model gpt-5: did you mean gpt2? (the models are: gpt-nano, gpt-10m, gpt2,"
      " gpt-moe-nano, gpt-moe-10m, mlp, mlp-unet,"
      " fashion-mlp, fashion-cnn, alexnet, vgg16, resnet18, resnet34, resnet50, resnet101, resnet152, inception_v3,"
      " unet, dlrm, wide-and-deep, deepfm)" },
    { "heads must share the width", "gpt-nano", { .heads = 3 }, "a width of 128 cannot be shared by 3 heads" },
    { "global tokens need a window", "gpt-nano", { .pattern = { .global = 3 } },
      "global tokens are seen beyond a window, and there is none: give one, as window=128" },
    { "strides need a window", "gpt-nano", { .pattern = { .stride = 8, .block = 2 } },
      "strides are seen beyond a window, and there is none: give one, as window=128" },
    { "the last of a stride are fewer than all", "gpt-nano", { .pattern = { .window = 4, .stride = 8, .block = 8 } },
      "8 tokens cannot be the last of 8: give fewer, as stride=8/1" },
    { "a model without attention has no window", "mlp", { .pattern = { .window = 4 } },
      "window is no size of the model mlp" },
    { "pictures have no global tokens", "unet", { .pattern = { .window = 0, .global = 4 } },
      "global is no size of the model unet" },
    { "dropout is below 1", "gpt-nano", { .dropout = 1 }, "a dropout of 1 is not in [0, 1)" },
    { "a width has a limit", "mlp", { .width = 20000 }, "a model of width 20000 is past the largest, 16384" },
    { "a micro-batch's tensors have a limit", "gpt-10m", { .micro_batch = 1000, .sequence = 8000 },
      "a micro-batch of 1000 sequences of 8000 is too large for a width of 384" },
    { "pixels are no sequence", "resnet18", { .sequence = 8 }, "sequence is no size of the model resnet18" },
    { "a text has no stem", "gpt2", { .stem = STEM_SMALL }, "stem is no size of the model gpt2" },
    { "a dense GPT has no experts", "gpt-nano", { .experts = { .experts = 4 } },
      "experts is no size of the model gpt-nano" },
    { "no token takes more experts than there are", "gpt-moe-nano", { .experts = { .experts = 4, .top = 5 } },
      "a token cannot take 5 of 4 experts: give top=4 or fewer" },
    { "a switch takes one", "gpt-moe-nano", { .experts = { .top = 2, .has_router = true, .router = ROUTER_SWITCH } },
      "the router switch takes one expert, not 2: leave out top, or name another router" },
    { "gshard takes two", "gpt-moe-nano", { .experts = { .top = 3, .has_router = true, .router = ROUTER_GSHARD } },
      "the router gshard takes two experts, not 3: leave out top, or name another router" },
    { "experts have a limit", "gpt-moe-nano", { .experts = { .experts = 257 } },
      "a model of experts 257 is past the largest, 256" },
    { "groups are deepseek's", "gpt-moe-nano", { .experts = { .groups = 4, .best_groups = 2 } },
      "groups is a size of the router deepseek: name it, as router=deepseek" },
    { "groups are equal", "gpt-moe-nano",
      { .experts = { .has_router = true, .router = ROUTER_DEEPSEEK, .groups = 3, .best_groups = 2 } },
      "8 experts are no equal groups, 3 of them: give a divisor up to 64, as groups=4/2" },
    { "the best groups have enough", "gpt-moe-nano",
      { .experts = { .has_router = true, .router = ROUTER_DEEPSEEK, .groups = 8, .best_groups = 1 } },
      "the best 1 of 8 groups do not have 2 experts to take: take more groups" },
    { "one class is none", "alexnet", { .classes = 1 },
      "a model that tells 1 class apart has nothing to learn: name 2 or more" },
    { "a window needs pixels", "alexnet", { .pixels = 30 },
      "pictures of 30 pixels are too small: layer pool2 has a window of 3 by 3 and gets 2 by 2 pixels" },
    { "pixels are halved", "unet", { .pixels = 100 },
      "100 pixels cannot be halved 4 times, once per block: take a multiple of 16, or fewer blocks (at most 8)" },
    { "a text has no tables", "mlp", { .clicks = { .slots = 3 } }, "slots is no size of the model mlp" },
    { "each slot has a table", "dlrm", { .clicks = { .slots = 3, .row_count = 2, .rows = { 4, 5 } } },
      "rows are given for 2 tables, and there are 3 slots: give one number, or one for each slot" },
    { "rows are counted in 31 bits", "deepfm", { .clicks = { .row_count = 1, .rows = { 1 << 30 } } },
      "tables of 27917287424 rows are past the largest, 2147483647 together" },
    { "one vector has no products", "dlrm", { .clicks = { .slots = 1, .has_numbers = true } },
      "dlrm multiplies every two vectors, and there is one: give it more slots" },
    { "a bottom is of numbers", "dlrm", { .clicks = { .has_numbers = true, .bottom = { 4 } } },
      "bottom is the MLP of the numbers, and there are none" },
    { "a rank is of crosses", "dlrm", { .clicks = { .rank = 4 } },
      "rank is a size of crosses, and there are none: give their number, as cross=3" },
    { "tables are in fp32", "deepfm", { .precision = PRECISION_FP16 },
      "deepfm is computed in fp32 only: name devices without bf16 and fp16" },
    { "a large micro-batch has a limit", "vgg16", { .micro_batch = 1024, .pixels = 1024 },
      "a micro-batch of 1024 is too large: layer conv1_1 hands on more than 2^32 numbers" },
};

// The tables of MLPerf's DLRM have 26,135,627,264 numbers.
static void mlperfs_tables_have_as_many_numbers(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct model_sizes sizes = { .clicks = {
        .columns = 128, .ids = 100, .bottom = { 512, 256 }, .top = { 1024, 1024, 512, 256 }, .cross = 3, .rank = 512,
        .row_count = 26,
        .rows = { 40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938,
                  155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36 },
    } };
    struct model *model = model_create("dlrm", &sizes, &error);
    assert_good(model, error);
    assert_int_equal(layer_parameter_count(&model->layers[0]), 26135627264u);
    assert_int_equal(layer_sizes(&model->layers[0]).parameter_bytes, 4 * 26135627264u);
    const uint64_t bottom = 14 * 512 + 513 * 256 + 257 * 128, width = 27 * 128;
    const uint64_t crosses = 3 * (width * 512 + 512 * width + width);
    const uint64_t top = (width + 1) * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257;
    assert_int_equal(model_parameter_count(model), 26135627264u + bottom + crosses + top);
    model_free(model);
}

// Row r of a table begins as in a model whose tables have other sizes, and tables adjoin.
static void a_row_begins_as_its_table_and_number_say(void **state)
{
    (void)state;
    enum { COLUMNS = 5, SLOTS = 3 };
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    static const uint32_t small[SLOTS] = { 3, 7, 2 }, large[SLOTS] = { 30, 7, 200 };
    const uint32_t *const sizes[2] = { small, large };
    float *numbers[2];
    for (int m = 0; m < 2; m++) {
        struct model_sizes asked = { .clicks = { .columns = COLUMNS, .row_count = SLOTS } };
        memcpy(asked.clicks.rows, sizes[m], sizeof small);
        struct model *model = model_create("dlrm", &asked, &error);
        assert_good(model, error);
        numbers[m] = malloc(layer_sizes(&model->layers[0]).parameter_bytes);
        assert_non_null(numbers[m]);
        layer_initialize(&model->layers[0], queue, numbers[m], 7);
        assert_good(queue_wait(queue, &error), error);
        model_free(model);
    }
    for (size_t slot = 0, a = 0, b = 0; slot < SLOTS; slot++) {
        assert_memory_equal(numbers[0] + a, numbers[1] + b, small[slot] * COLUMNS * sizeof(float));
        assert_true(numbers[0][a] != 0);
        a += small[slot] * COLUMNS, b += large[slot] * COLUMNS;
    }
    free(numbers[0]);
    free(numbers[1]);
    queue_free(queue);
    device_close(device);
}

static void an_id_is_its_row_or_hashed(void **state)
{
    (void)state;
    bool is_used[10] = { false };
    for (uint32_t id = 0; id < 1000; id++) {
        assert_int_equal(layer_table_row(1000, id), id);
        const uint32_t row = layer_table_row(10, id);
        assert_true(row < 10 && (id >= 10 || row == id));
        is_used[row] = is_used[row] || id >= 10;
    }
    for (int row = 0; row < 10; row++)
        assert_true(is_used[row]);
    assert_true(layer_table_row(1, UINT32_MAX) == 0 && layer_table_row(UINT32_MAX, UINT32_MAX) < UINT32_MAX);
}

static void no_dropout_can_be_asked_for(void **state)
{
    (void)state;
    const struct model_sizes sizes[] = { { 0 }, { .has_dropout = true }, { .has_dropout = true, .dropout = 0.25f } };
    static const float expected[] = { 0.5f, 0, 0.25f };
    for (int i = 0; i < 3; i++) {
        struct error error = { 0 };
        struct model *model = model_create("vgg16", &sizes[i], &error);
        assert_good(model, error);
        for (size_t l = 0; l < model->layer_count; l++)
            if (model->layers[l].kind == &layer_dropout)
                assert_true(model->layers[l].shape.dropout == expected[i]);
        model_free(model);
    }
}

// Statistics of ResNet-50 as torchvision counts them: two numbers per channel of each norm.
static void a_norm_has_running_statistics(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_create("resnet50", &(struct model_sizes){ 0 }, &error);
    assert_good(model, error);
    uint64_t count = 0;
    for (size_t i = 0; i < model->layer_count; i++) {
        struct weir_tensor states[LAYER_TENSORS];
        const size_t found = layer_states(&model->layers[i], states);
        assert_true((found > 0) == (layer_sizes(&model->layers[i]).state_bytes > 0));
        for (size_t k = 0; k < found; k++)
            count += states[k].columns;
    }
    assert_int_equal(count, 53120);
    model_free(model);
}

static struct alike_row {
    const char *name, *a, *b;
    struct model_sizes of_a, of_b;
    const char *differs;  // the first layer that does; NULL: none
} alike_rows[] = {
    { "in_training_alone", "alexnet", "alexnet", { .micro_batch = 3 },
      { .dropout = 0.2f, .has_dropout = true, .smoothing = 0.1f }, NULL },
    { "in_length", "gpt-nano", "gpt-nano", { .sequence = 8 }, { .micro_batch = 2 }, NULL },
    { "in_heads", "gpt-nano", "gpt-nano", { .heads = 2 }, { .heads = 4 }, "block0.attention" },
    { "in_windows", "gpt-nano", "gpt-nano", { .pattern = { .window = 8 } }, { .pattern = { .window = 9 } },
      "block0.attention" },
    { "in_a_window", "gpt-nano", "gpt-nano", { .pattern = { .window = 8 } }, { 0 }, "block0.attention" },
    { "in_strides_of_tokens", "gpt-nano", "gpt-nano", { .pattern = { .window = 8, .stride = 4, .block = 1 } },
      { .pattern = { .window = 8, .stride = 4, .block = 2 } }, "block0.attention" },
    { "in_strides", "resnet18", "resnet18", { .pixels = 32, .stem = STEM_SMALL },
      { .pixels = 32, .stem = STEM_SMALL_HALVING }, "conv1" },
    { "in_losses_of_routers", "gpt-moe-nano", "gpt-moe-nano",
      { .experts = { .has_auxiliary = true, .auxiliary = 0.2f } }, { .experts = { .has_z = true } }, NULL },
    { "in_capacity", "gpt-moe-nano", "gpt-moe-nano", { .experts = { .has_capacity = true } }, { 0 }, "block1.experts" },
    { "in_routers", "gpt-moe-nano", "gpt-moe-nano", { .experts = { .has_router = true, .router = ROUTER_GSHARD } },
      { 0 }, "block1.experts" },
    { "in_classes", "fashion-cnn", "fashion-cnn", { .classes = 3 }, { .classes = 4 }, "scores" },
    { "in_channels", "resnet18", "resnet18", { .width = 8 }, { .width = 16 }, "conv1" },
    { "in_layers", "resnet18", "resnet34", { 0 }, { 0 }, "block2.0.around" },
    { "in_depth", "gpt-nano", "gpt-nano", { .blocks = 1 }, { .blocks = 2 }, "head" },
};

static void what_computes_otherwise_is_found(void **state)
{
    const struct alike_row *row = *state;
    struct error error = { 0 };
    struct model *a = model_create(row->a, &row->of_a, &error), *b = model_create(row->b, &row->of_b, &error);
    assert_good(a && b, error);
    const struct layer *found = model_differs(a, b);
    assert_string_equal(found ? found->name : "none", row->differs ? row->differs : "none");
    assert_true(!model_differs(b, a) == !found && !model_differs(a, a));
    model_free(a);
    model_free(b);
}

static void bad_sizes_are_refused(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    assert_null(model_create(row->model, &row->sizes, &error));
    assert_error(error, row->sentence);
}

static void every_kind_can_be_created(void **state)
{
    (void)state;
    size_t count;
    const struct model_kind *kinds = model_kinds(&count);
    assert_int_equal(count, 21);
    for (size_t i = 0; i < count; i++) {
        struct error error = { 0 };
        struct model *model = model_create(kinds[i].name, &kinds[i].sizes, &error);
        assert_good(model, error);
        struct model_sizes sizes = model->sizes;  // those that were chosen make the model again
        sizes.sequence = model->family == FAMILY_TEXT ? sizes.sequence : 0;
        struct model *again = model_create(kinds[i].name, &sizes, &error);
        assert_good(again, error);
        assert_true(again->layer_count == model->layer_count && model_flops(again) == model_flops(model));
        assert_int_equal(model_parameter_bytes(again), model_parameter_bytes(model));
        model_free(model);
        model_free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_nano_has_its_layers_in_order),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[0]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[1]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[2]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[3]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[4]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[5]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[6]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[7]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[8]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[9]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[10]),
        TEST_ROW(a_model_has_its_number_of_parameters, &count_rows[11]),
        cmocka_unit_test(a_norm_has_running_statistics),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[0]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[1]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[2]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[3]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[4]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[5]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[6]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[7]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[8]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[9]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[10]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[11]),
        TEST_ROW(what_computes_otherwise_is_found, &alike_rows[12]),
        cmocka_unit_test(no_dropout_can_be_asked_for),
        cmocka_unit_test(mlperfs_tables_have_as_many_numbers),
        cmocka_unit_test(a_row_begins_as_its_table_and_number_say),
        cmocka_unit_test(an_id_is_its_row_or_hashed),
        cmocka_unit_test(a_narrow_resnet_has_its_number_of_parameters),
        cmocka_unit_test(flops_are_those_of_the_products),
        cmocka_unit_test(flops_count_the_pairs_that_a_pattern_sees),
        TEST_ROW(a_padded_model_has_room_for_more_words, &padded_rows[0]),
        TEST_ROW(a_padded_model_has_room_for_more_words, &padded_rows[1]),
        TEST_ROW(a_padded_model_has_room_for_more_words, &padded_rows[2]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[0]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[1]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[2]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[3]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[4]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[5]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[6]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[7]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[8]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[9]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[10]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[11]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[12]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[13]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[14]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[15]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[16]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[17]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[18]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[19]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[20]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[21]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[22]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[23]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[24]),
        TEST_ROW(bad_sizes_are_refused, &bad_rows[25]),
        cmocka_unit_test(every_kind_can_be_created),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
