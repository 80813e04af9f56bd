#include "tests/models/sequential.h"

#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "tests/test.h"

static const struct sequential_update adamw = {
    .adamw = { .rate = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f },
};
static struct sequential_update plain_adamw = {
    .adamw = { .rate = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f },
};
static struct sequential_update sgd = { .is_sgd = true, .sgd = { .rate = 0.1f, .momentum = 0.9f } };

struct run {
    struct device *device;
    struct model *model;
    struct sequential *sequential;
    uint32_t micro_batches;
    int32_t *tokens, *targets;
};

static const char text[] = "a weir evens out a flow; this one evens out the flow of micro-batches. ";

static struct run run_start_on(const char *device, const char *model, const struct model_sizes *sizes,
                               uint32_t micro_batches, uint64_t seed)
{
    struct error error = { 0 };
    struct run run = { .device = device_open(device, &error), .micro_batches = micro_batches };
    assert_good(run.device, error);
    struct model_sizes own = *sizes;
    own.precision = device_precision(run.device);
    run.model = model_create(model, &own, &error);
    assert_good(run.model, error);
    run.sequential = sequential_create(run.device, run.model, micro_batches, seed, &error);
    assert_good(run.sequential, error);
    const size_t count = micro_batches * model_tokens(run.model);
    run.tokens = malloc((count + 1) * sizeof(int32_t));
    assert_non_null(run.tokens);
    for (size_t i = 0; i < count + 1; i++)
        run.tokens[i] = (unsigned char)text[i % (sizeof text - 1)];
    run.targets = run.tokens + 1;
    return run;
}

static struct run run_start(const char *model, const struct model_sizes *sizes, uint32_t micro_batches, uint64_t seed)
{
    return run_start_on("cpu", model, sizes, micro_batches, seed);
}

static void run_end(struct run *run)
{
    sequential_free(run->sequential);
    model_free(run->model);
    device_close(run->device);
    free(run->tokens);
}

static double step(struct run *run, const struct sequential_update *update)
{
    struct error error = { 0 };
    double loss = NAN;
    assert_good(sequential_step(run->sequential, run->tokens, run->targets, update, &loss, &error), error);
    return loss;
}

static double evaluate(struct run *run)
{
    struct error error = { 0 };
    double loss = NAN;
    assert_good(sequential_evaluate(run->sequential, run->tokens, run->targets, run->micro_batches, &loss, &error),
                error);
    return loss;
}

// All parameters of a run after `steps` steps, as a hash.
static void weights_after(const char *model, uint64_t seed, size_t steps, const struct sequential_update *update,
                          char digits[HASH_SIZE])
{
    const struct model_sizes sizes = { .micro_batch = 2, .sequence = 16, .width = 32, .blocks = 2, .heads = 2,
                                       .dropout = 0.1f };
    struct run run = run_start(model, &sizes, 3, seed);
    for (size_t i = 0; i < steps; i++)
        step(&run, update);
    hash_bytes(sequential_parameters(run.sequential, 0), model_parameter_bytes(run.model), digits);
    run_end(&run);
}

static void the_same_seed_gives_the_same_bits_and_another_does_not(void **state)
{
    (void)state;
    char one[HASH_SIZE], again[HASH_SIZE], other[HASH_SIZE];
    weights_after("gpt-nano", 1, 4, &adamw, one);
    weights_after("gpt-nano", 1, 4, &adamw, again);
    weights_after("gpt-nano", 2, 4, &adamw, other);
    assert_string_equal(one, again);
    assert_string_not_equal(one, other);
}

static struct learn_row {
    const char *name;
    const char *device, *model;
    const struct sequential_update *update;
    double below;  // the text's next byte follows from the last few; an mlp sees only the last
} learn_rows[] = {
    { "gpt-nano learns a text by AdamW", "cpu", "gpt-nano", &adamw, 1.0 },
    { "gpt-nano learns a text by SGD", "cpu", "gpt-nano", &sgd, 3.5 },
    { "mlp learns what one byte tells by AdamW", "cpu", "mlp", &adamw, 2.0 },
    { "mlp-unet learns what one byte tells by AdamW", "cpu", "mlp-unet", &adamw, 2.0 },
    { "gpt-nano learns a text in bfloat16", "cpu:bf16", "gpt-nano", &adamw, 1.0 },
};

static void a_repeating_text_is_learned(void **state)
{
    const struct learn_row *row = *state;
    const struct model_sizes sizes = { .micro_batch = 2, .sequence = 48, .width = 48, .blocks = 2, .heads = 2 };
    struct run run = run_start_on(row->device, row->model, &sizes, 2, 1);
    const double first = step(&run, row->update);
    assert_true(fabs(first - log(256)) < 0.5);
    for (size_t i = 0; i < 80; i++)
        step(&run, row->update);
    const double last = evaluate(&run);
    if (!(last < row->below))
        fail_msg("the loss is %g after 80 steps, should be below %g", last, row->below);
    run_end(&run);
}

// What a small step down the gradient takes off the loss is the gradient's square, if it is the gradient: of skips, too.
static void gradients_of_skips_are_those_of_the_loss(void **state)
{
    (void)state;
    const float rate = 4e-3f;
    const struct sequential_update down = { .is_sgd = true, .sgd = { .rate = rate } };
    const struct model_sizes sizes = { .micro_batch = 2, .sequence = 16, .width = 32, .blocks = 2 };
    struct run run = run_start("mlp-unet", &sizes, 2, 3);
    const double before = step(&run, &down);
    const float *gradients = sequential_gradients(run.sequential, 0);
    double squares = 0;
    for (size_t i = 0; i < model_gradient_bytes(run.model) / sizeof(float); i++)
        squares += (double)gradients[i] * gradients[i];
    const double found = (before - evaluate(&run)) / (double)rate;
    if (fabs(found - squares) > 0.05 * squares)
        fail_msg("the loss falls by %g of a step, the gradient's square is %g", found, squares);
    run_end(&run);
}

static void a_step_tells_the_loss_it_began_with(void **state)
{
    (void)state;
    const struct model_sizes sizes = { .sequence = 16, .width = 32, .blocks = 1, .heads = 2 };
    struct run run = run_start("gpt-nano", &sizes, 3, 4);
    const double before = evaluate(&run);
    assert_true(step(&run, &adamw) == before);
    assert_true(evaluate(&run) < before);
    run_end(&run);
}

static void micro_batches_are_shares_of_one_mean(void **state)
{
    (void)state;
    // The same four sequences as one micro-batch of four, or as four of one.
    const struct model_sizes whole = { .micro_batch = 4, .sequence = 16, .width = 32, .blocks = 1, .heads = 2 };
    struct model_sizes parts = whole;
    parts.micro_batch = 1;
    struct run one = run_start("gpt-nano", &whole, 1, 4), four = run_start("gpt-nano", &parts, 4, 4);
    assert_true(fabs(step(&one, &adamw) - step(&four, &adamw)) < 1e-5);
    const float *a = sequential_gradients(one.sequential, 0), *b = sequential_gradients(four.sequential, 0);
    for (size_t i = 0; i < model_parameter_bytes(one.model) / sizeof(float); i++)
        if (!(fabsf(a[i] - b[i]) < 1e-5f))
            fail_msg("gradient %zu is %g and %g", i, (double)a[i], (double)b[i]);
    run_end(&one);
    run_end(&four);
}

static struct slope_row {
    const char *name;
    enum tying tying;
} slope_rows[] = {
    { "the whole model's gradient is the slope of its loss", TYING_UNTIED },
    { "words that embedding and head share have the gradients of both", TYING_TIED },
};

// L(w + h g) - L(w - h g) = 2 h |g|^2 for small h: the whole chain at once.
static void the_whole_models_gradient_is_the_slope_of_its_loss(void **state)
{
    const struct slope_row *row = *state;
    const struct model_sizes sizes = { .sequence = 16, .width = 32, .blocks = 2, .heads = 2, .tying = row->tying };
    struct run run = run_start("gpt-nano", &sizes, 2, 4);
    const struct sequential_update still = { .is_sgd = true };  // of rate 0: only the gradients
    step(&run, &still);
    const size_t count = model_parameter_bytes(run.model) / sizeof(float);
    const float *gradients = sequential_gradients(run.sequential, 0);
    float *weights = (float *)(uintptr_t)sequential_parameters(run.sequential, 0);  // the cpu's memory is ours
    double squares = 0, change = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)gradients[i] * (double)gradients[i];
    const float h = (float)(0.01 / squares);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            weights[i] += (side ? -2 : 1) * h * gradients[i];
        change += (side ? -1 : 1) * evaluate(&run);
    }
    if (!(fabs(change / (2 * (double)h * squares) - 1) < 0.005))
        fail_msg("the loss changed by %g, should by %g", change, 2 * (double)h * squares);
    run_end(&run);
}

// The change that decay alone makes in one update is -rate * decay * weight, of matrices only.
static void only_matrices_decay(void **state)
{
    const struct sequential_update *plain = *state;
    struct sequential_update decaying = *plain;
    decaying.adamw.decay = decaying.sgd.decay = 0.5f;
    const struct model_sizes sizes = { .sequence = 16, .width = 32, .blocks = 1, .heads = 2 };
    struct run one = run_start("gpt-nano", &sizes, 1, 4), two = run_start("gpt-nano", &sizes, 1, 4);
    struct run start = run_start("gpt-nano", &sizes, 1, 4);
    step(&one, plain);
    step(&two, &decaying);
    for (size_t layer = 0; layer < one.model->layer_count; layer++) {
        struct tensor tensors[LAYER_TENSORS];
        const size_t count = layer_tensors(&one.model->layers[layer], tensors);
        const float *w = sequential_parameters(start.sequential, layer);
        const float *a = sequential_parameters(one.sequential, layer);
        const float *b = sequential_parameters(two.sequential, layer);
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < tensors[t].rows * tensors[t].columns; i++) {
                const size_t at = tensors[t].offset + i;
                const float rate = plain->is_sgd ? plain->sgd.rate : plain->adamw.rate;
                const float want = tensors[t].decays ? -rate * 0.5f * w[at] : 0;
                if (!(fabsf(b[at] - a[at] - want) <= 2e-7f))
                    fail_msg("layer %zu, %s: decay changed %zu by %g, should by %g", layer, tensors[t].name, i,
                             (double)(b[at] - a[at]), (double)want);
            }
    }
    run_end(&one);
    run_end(&two);
    run_end(&start);
}

static void all_memory_is_one_allocation_made_at_the_start(void **state)
{
    (void)state;
    const struct model_sizes sizes = { .sequence = 16, .width = 32, .blocks = 1, .heads = 2 };
    struct run run = run_start("gpt-nano", &sizes, 2, 1);
    const struct device_memory before = device_memory(run.device);
    step(&run, &adamw);
    evaluate(&run);
    const struct device_memory after = device_memory(run.device);
    assert_int_equal(before.allocations, 1);
    assert_int_equal(after.allocations, 1);
    assert_int_equal(after.peak_bytes, before.peak_bytes);
    assert_true(before.peak_bytes > 4 * model_parameter_bytes(run.model));
    run_end(&run);
}

static void a_token_outside_the_vocabulary_ends_the_step(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct model_sizes sizes = { .sequence = 16, .width = 32, .blocks = 1, .heads = 2 };
    struct run run = run_start("gpt-nano", &sizes, 1, 1);
    run.tokens[5] = 256;
    double loss;
    assert_false(sequential_step(run.sequential, run.tokens, run.targets, &adamw, &loss, &error));
    assert_error(error, "a token is outside the vocabulary");
    run_end(&run);
}

// --- words that are padding ---------------------------------------------------------------

static struct padding_row {
    const char *name;
    const char *device;
    enum tying tying;
    double near;  // how far numbers may be from those without padding
} padding_rows[] = {
    { "nobody sees a tied model's padding", "cpu", TYING_TIED, 1e-6 },
    { "nobody sees an untied model's padding", "cpu", TYING_UNTIED, 1e-6 },
    { "nobody sees a tied model's padding in bfloat16", "cpu:bf16", TYING_TIED, 1e-3 },
    { "nobody sees an untied model's padding in bfloat16", "cpu:bf16", TYING_UNTIED, 1e-3 },
};

typedef double number_of(const struct run *run, size_t layer, size_t i);

static double weight_of(const struct run *run, size_t layer, size_t i)
{
    const void *weights = sequential_parameters(run->sequential, layer);
    if (device_precision(run->device) == PRECISION_FP32)
        return (double)((const float *)weights)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)weights)[i] << 16;
    float weight;
    memcpy(&weight, &bits, sizeof weight);
    return (double)weight;
}

static double gradient_of(const struct run *run, size_t layer, size_t i)
{
    return (double)sequential_gradients(run->sequential, layer)[i];
}

// Numbers that both have are near each other, and padding is zeros.
static void compare_padded(const struct run *plain, const struct run *padded, number_of *number, double near)
{
    for (size_t layer = 0; layer < plain->model->layer_count; layer++) {
        struct tensor without[LAYER_TENSORS], with[LAYER_TENSORS];
        const size_t count = layer_tensors(&plain->model->layers[layer], without);
        layer_tensors(&padded->model->layers[layer], with);
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < with[t].rows * with[t].columns; i++) {
                const size_t row = i / with[t].columns, column = i % with[t].columns;
                const bool is_padding = row >= without[t].rows || column >= without[t].columns;
                const size_t place = without[t].offset + row * without[t].columns + column;
                const double want = is_padding ? 0 : number(plain, layer, place);
                const double got = number(padded, layer, with[t].offset + i);
                if (!(fabs(got - want) <= (is_padding ? 0 : near)))
                    fail_msg("layer %zu, %s: row %zu, column %zu is %g with padding and %g without", layer,
                             with[t].name, row, column, got, want);
            }
    }
}

static void compare_steps(struct run *plain, struct run *padded, size_t steps, double near)
{
    for (size_t i = 0; i < steps; i++) {
        const double want = step(plain, &adamw), got = step(padded, &adamw);
        if (!(fabs(got - want) <= near * want))
            fail_msg("step %zu: the loss is %.9g with padding and %.9g without", i, got, want);
    }
}

static void nobody_sees_padding(void **state)
{
    const struct padding_row *row = *state;
    struct model_sizes sizes = { .sequence = 16, .width = 16, .blocks = 1, .heads = 2, .tying = row->tying };
    struct run plain = run_start_on(row->device, "gpt2", &sizes, 2, 3);
    sizes.padded = true;
    struct run padded = run_start_on(row->device, "gpt2", &sizes, 2, 3);
    for (size_t i = 0; i <= plain.micro_batches * model_tokens(plain.model); i++)
        plain.tokens[i] = padded.tokens[i] = (int32_t)(50256 - i * 1570);  // the vocabulary's last, and others
    compare_padded(&plain, &padded, weight_of, 0);
    compare_steps(&plain, &padded, 1, row->near);
    compare_padded(&plain, &padded, gradient_of, row->near);
    compare_steps(&plain, &padded, 5, row->near);
    compare_padded(&plain, &padded, weight_of, 100 * row->near);
    run_end(&plain);
    run_end(&padded);
}

static void padding_is_no_token(void **state)
{
    (void)state;
    const struct model_sizes sizes = { .sequence = 16, .width = 16, .blocks = 1, .heads = 2, .padded = true };
    for (size_t i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct run run = run_start("gpt2", &sizes, 1, 1);
        run.tokens[i ? 16 : 0] = 50257;  // the first is only read, the last is only a target
        double loss;
        assert_false(sequential_step(run.sequential, run.tokens, run.targets, &adamw, &loss, &error));
        assert_error(error, i ? "a target is outside the vocabulary" : "a token is outside the vocabulary");
        run_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_bits_and_another_does_not),
        TEST_ROW(a_repeating_text_is_learned, &learn_rows[0]),
        TEST_ROW(a_repeating_text_is_learned, &learn_rows[1]),
        TEST_ROW(a_repeating_text_is_learned, &learn_rows[2]),
        TEST_ROW(a_repeating_text_is_learned, &learn_rows[3]),
        cmocka_unit_test(gradients_of_skips_are_those_of_the_loss),
        cmocka_unit_test(a_step_tells_the_loss_it_began_with),
        cmocka_unit_test(micro_batches_are_shares_of_one_mean),
        TEST_ROW(the_whole_models_gradient_is_the_slope_of_its_loss, &slope_rows[0]),
        TEST_ROW(the_whole_models_gradient_is_the_slope_of_its_loss, &slope_rows[1]),
        { .name = "only matrices decay by AdamW", .test_func = only_matrices_decay, .initial_state = &plain_adamw },
        { .name = "only matrices decay by SGD", .test_func = only_matrices_decay, .initial_state = &sgd },
        cmocka_unit_test(all_memory_is_one_allocation_made_at_the_start),
        cmocka_unit_test(a_token_outside_the_vocabulary_ends_the_step),
        TEST_ROW(nobody_sees_padding, &padding_rows[0]),
        TEST_ROW(nobody_sees_padding, &padding_rows[1]),
        TEST_ROW(nobody_sees_padding, &padding_rows[2]),
        TEST_ROW(nobody_sees_padding, &padding_rows[3]),
        cmocka_unit_test(padding_is_no_token),
    };
    return cmocka_run_group_tests_name("sequential", tests, NULL, NULL);
}
