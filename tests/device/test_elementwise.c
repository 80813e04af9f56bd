#include "tests/device/kernel_rig.h"

static void check_simple(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 300);
    const float *a = rig_numbers(rig, count, 3), *b = rig_numbers(rig, count, 3), *c = rig_numbers(rig, count, 3);
    float *sum = rig_output(rig, count), *scaled = rig_output(rig, count), *filled = rig_output(rig, count);
    float *added = rig_output(rig, count), *wide = rig_output(rig, count), *narrow = rig_output(rig, count);
    kernel_add(rig->queue, rig_values(rig, sum), rig_values(rig, a), rig_values(rig, b), count);
    kernel_add_floats(rig->queue, added, a, b, count);
    kernel_scale(rig->queue, scaled, a, 0.3f, count);
    kernel_fill(rig->queue, rig_values(rig, filled), (float)trial, count);
    kernel_widen(rig->queue, wide, rig_values(rig, a), count);
    kernel_narrow(rig->queue, rig_values(rig, narrow), a, count);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        assert_true(sum[i] == rig_round(a[i] + b[i]) && added[i] == a[i] + b[i]);
        assert_true(wide[i] == a[i] && narrow[i] == a[i]);
        assert_true(scaled[i] == a[i] * 0.3f);
        assert_true(filled[i] == (float)trial);
    }
    kernel_add(rig->queue, rig_values(rig, sum), rig_values(rig, sum), rig_values(rig, c), count);  // in place
    rig_settle(rig);
    for (size_t i = 0; i < count; i++)
        assert_true(sum[i] == rig_round(rig_round(a[i] + b[i]) + c[i]));
}

static void adding_scaling_and_filling_are_exact(void **state)
{
    (void)state;
    rig_try_everywhere(check_simple, test_trials(60, 600));
}

// Any bits at all: ties between neighbours, infinities, NaNs, numbers next to 0.
static void check_narrow(struct rig *rig, uint64_t trial)
{
    enum { COUNT = 3000 };
    float *in = rig_buffer(rig, COUNT, false), *narrow = rig_output(rig, COUNT), *wide = rig_output(rig, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)random_next(&rig->seed);
        bits = i % 4 == trial % 4 ? (bits & 0xffff0000u) | 0x8000u : bits;
        memcpy(&in[i], &bits, sizeof bits);
    }
    kernel_narrow(rig->queue, rig_values(rig, narrow), in, COUNT);
    kernel_widen(rig->queue, wide, rig_values(rig, narrow), COUNT);
    rig_settle(rig);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(isnan(in[i]) ? isnan(narrow[i]) : narrow[i] == rig_round(in[i]));
        assert_true(isnan(in[i]) ? isnan(wide[i]) : wide[i] == narrow[i]);
    }
}

static void narrowing_rounds_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    rig_try_everywhere(check_narrow, test_trials(20, 400));
}

static double gelu_of(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double c = sqrt(2 / M_PI), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static void check_gelu(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 500);
    const float *in = rig_numbers(rig, count, 1 + (double)(trial % 20)), *gradient = rig_numbers(rig, count, 2);
    float *out = rig_output(rig, count), *again = rig_output(rig, count), *in_gradient = rig_output(rig, count);
    float *alone = rig_output(rig, count);
    kernel_gelu(rig->queue, rig_values(rig, out), rig_values(rig, in), count);
    kernel_gelu_backward(rig->queue, rig_values(rig, in_gradient), rig_values(rig, again), rig_values(rig, gradient),
                         rig_values(rig, in), count);
    kernel_gelu_backward(rig->queue, rig_values(rig, alone), NULL, rig_values(rig, gradient), rig_values(rig, in),
                         count);
    rig_settle(rig);
    assert_memory_equal(out, again, count * sizeof(float));
    assert_memory_equal(in_gradient, alone, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const double x = (double)in[i];
        rig_value_close_to(out[i], gelu_of(x), 1e-6, "gelu", i);
        rig_value_close_to(in_gradient[i], (double)gradient[i] * gelu_slope(x), 2e-6, "gelu's gradient", i);
    }
}

static void gelu_and_its_slope_equal_the_formulas(void **state)
{
    (void)state;
    rig_try_everywhere(check_gelu, test_trials(100, 1000));
}

static void check_gelu_ends(struct rig *rig, uint64_t trial)
{
    (void)trial;
    float *in = rig_numbers(rig, 21, 1), *one = rig_numbers(rig, 21, 1);
    float *out = rig_output(rig, 21), *slope = rig_output(rig, 21);
    const float ends[7] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, -20 };
    for (size_t i = 0; i < 21; i++)
        in[i] = ends[i % 7], one[i] = 1;
    kernel_gelu(rig->queue, rig_values(rig, out), rig_values(rig, in), 21);
    kernel_gelu_backward(rig->queue, rig_values(rig, slope), NULL, rig_values(rig, one), rig_values(rig, in), 21);
    rig_settle(rig);
    for (size_t i = 0; i < 21; i += 7) {
        assert_true(isnan(out[i]) && isnan(slope[i]));
        assert_true(isinf(out[i + 1]) && out[i + 1] > 0 && slope[i + 1] == 1);
        assert_true(out[i + 2] == 0 && slope[i + 2] == 0);
        assert_true(out[i + 3] == rig_round(3e38f) && slope[i + 3] == 1);
        assert_true(out[i + 4] == 0 && slope[i + 4] == 0);
        assert_true(out[i + 5] == 0);
        rig_value_close_to(slope[i + 5], 0.5, 1e-7, "slope at 0", i);
        assert_true(fabsf(out[i + 6]) < 1e-30f);
    }
}

static void gelu_takes_nan_and_infinities_to_their_limits(void **state)
{
    (void)state;
    rig_try_everywhere(check_gelu_ends, 1);
}

static void check_relu(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t count = rig_size(rig, 200);
    float *in = rig_numbers(rig, count, 1), *gradient = rig_numbers(rig, count, 1);
    in[0] = NAN, in[count / 2] = 0;
    uint8_t *passed = (uint8_t *)rig_output(rig, (count + 3) / 4);
    float *out = rig_output(rig, count), *in_gradient = rig_output(rig, count);
    memset(passed, 0, (count + 3) / 4 * 4);
    kernel_relu(rig->queue, rig_values(rig, out), passed, rig_values(rig, in), count);
    kernel_relu_backward(rig->queue, rig_values(rig, in_gradient), rig_values(rig, gradient), passed, count);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        if (isnan(in[i]))
            assert_true(isnan(out[i]) && in_gradient[i] == gradient[i]);
        else
            assert_true(out[i] == (in[i] > 0 ? in[i] : 0) && in_gradient[i] == (in[i] > 0 ? gradient[i] : 0));
    }
}

static void relu_passes_what_is_positive_or_not_a_number(void **state)
{
    (void)state;
    rig_try_everywhere(check_relu, test_trials(40, 400));
}

static void check_branch(struct rig *rig, uint64_t trial)
{
    const size_t rows = 1 + trial % 5, columns = rig_size(rig, 100), count = rows * columns;
    const float *trunk = rig_numbers(rig, count, 2), *branch = rig_numbers(rig, count, 2);
    const float *bias = rig_numbers(rig, columns, 1);
    float *plain = rig_output(rig, count), *biased = rig_buffer(rig, count, false);
    float *dropped = rig_output(rig, count), *ended = rig_output(rig, count);
    const struct dropout dropout = { .probability = 0.4f, .key = dropout_key(trial, 2, 3, 4) };
    for (size_t i = 0; i < count; i++)
        biased[i] = rig_round(branch[i] + bias[i % columns]);
    kernel_add_branch(rig->queue, rig_values(rig, plain), rig_values(rig, trunk), rig_values(rig, branch),
                      rig_values(rig, bias), rows, columns, (struct dropout){ 0 });
    kernel_dropout(rig->queue, rig_values(rig, dropped), rig_values(rig, biased), count, dropout);
    kernel_add_branch(rig->queue, rig_values(rig, ended), rig_values(rig, trunk), rig_values(rig, branch),
                      rig_values(rig, bias), rows, columns, dropout);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        assert_true(plain[i] == rig_round(trunk[i] + (branch[i] + bias[i % columns])));
        rig_value_close_to(ended[i], (double)trunk[i] + (double)dropped[i], 1e-6, "branch", i);
    }
}

static void a_branch_ends_in_bias_dropout_and_residual(void **state)
{
    (void)state;
    rig_try_everywhere(check_branch, test_trials(40, 400));
}

// --- dropout ---------------------------------------------------------------------

enum { MANY = 100000 };

static void check_dropout(struct rig *rig, uint64_t trial)
{
    const float probability = (float)(trial + 1) / 8;
    const struct dropout dropout = { .probability = probability, .key = dropout_key(5, trial, 0, 1) };
    float *in = rig_numbers(rig, MANY, 1), *out = rig_output(rig, MANY);
    kernel_dropout(rig->queue, rig_values(rig, out), rig_values(rig, in), MANY, dropout);
    rig_settle(rig);
    size_t dropped = 0;
    for (size_t i = 0; i < MANY; i++) {
        if (out[i] == 0)
            dropped++;
        else
            rig_value_close_to(out[i], (double)in[i] / (1 - (double)probability), 1e-6, "kept", i);
    }
    // Five deviations of a binomial.
    const double p = (double)probability;
    assert_true(fabs((double)dropped - MANY * p) < 5 * sqrt(MANY * p * (1 - p)));
}

static void dropout_drops_its_share_and_scales_the_rest(void **state)
{
    (void)state;
    rig_try_everywhere(check_dropout, 7);
}

// Element by element what the whole has there, wherever a piece begins.
static void check_pieces(struct rig *rig, uint64_t trial)
{
    const size_t rows = 2 + trial % 9, columns = rig_size(rig, 100), count = rows * columns;
    const size_t before = 1 + trial % (rows - 1), at = before * columns;
    struct dropout dropout = { .probability = 0.4f, .key = dropout_key(trial, 2, 3, 4) };
    const float *in = rig_numbers(rig, count, 2), *trunk = rig_numbers(rig, count, 2);
    const float *bias = rig_numbers(rig, columns, 1);
    float *dropped = rig_output(rig, count), *ended = rig_output(rig, count);
    float *piece = rig_output(rig, count - at), *end = rig_output(rig, count - at);
    kernel_dropout(rig->queue, rig_values(rig, dropped), rig_values(rig, in), count, dropout);
    kernel_add_branch(rig->queue, rig_values(rig, ended), rig_values(rig, trunk), rig_values(rig, in),
                      rig_values(rig, bias), rows, columns, dropout);
    dropout.first = (uint32_t)at;
    kernel_dropout(rig->queue, rig_values(rig, piece), rig_values(rig, in + at), count - at, dropout);
    kernel_add_branch(rig->queue, rig_values(rig, end), rig_values(rig, trunk + at), rig_values(rig, in + at),
                      rig_values(rig, bias), rows - before, columns, dropout);
    rig_settle(rig);
    for (size_t i = 0; i < count - at; i++)
        assert_true(piece[i] == dropped[at + i] && end[i] == ended[at + i]);
}

static void a_piece_is_dropped_as_in_the_whole(void **state)
{
    (void)state;
    rig_try_everywhere(check_pieces, test_trials(40, 400));
}

static struct dropout half_dropped(uint64_t key)
{
    return (struct dropout){ .probability = 0.5f, .key = key };
}

// How many of MANY elements two masks treat alike; independent masks of a half: half of them.
static size_t alike(struct rig *rig, uint64_t one, uint64_t two)
{
    float *ones = rig_numbers(rig, MANY, 1), *a = rig_output(rig, MANY), *b = rig_output(rig, MANY);
    kernel_fill(rig->queue, rig_values(rig, ones), 1, MANY);
    kernel_dropout(rig->queue, rig_values(rig, a), rig_values(rig, ones), MANY, half_dropped(one));
    kernel_dropout(rig->queue, rig_values(rig, b), rig_values(rig, ones), MANY, half_dropped(two));
    rig_settle(rig);
    size_t count = 0;
    for (size_t i = 0; i < MANY; i++)
        count += a[i] == b[i];
    return count;
}

static void check_keys(struct rig *rig, uint64_t trial)
{
    const uint64_t key = dropout_key(1, 2, 3, 4);
    const uint64_t others[] = { dropout_key(9, 2, 3, 4), dropout_key(1, 9, 3, 4), dropout_key(1, 2, 9, 4),
                                dropout_key(1, 2, 3, 9) };
    assert_true(llabs((long long)alike(rig, key, others[trial]) - MANY / 2) < 800);
    assert_int_equal(alike(rig, key, key), MANY);
}

static void each_of_seed_step_micro_batch_and_layer_gives_another_mask(void **state)
{
    (void)state;
    rig_try("cpu", check_keys, 4);
}

// The first bits of a mask are pinned: checkpoints and other devices rely on them.
static void check_mask(struct rig *rig, uint64_t trial)
{
    (void)trial;
    float *ones = rig_numbers(rig, 40, 1), *out = rig_output(rig, 40);
    kernel_fill(rig->queue, rig_values(rig, ones), 1, 40);
    kernel_dropout(rig->queue, rig_values(rig, out), rig_values(rig, ones), 40, half_dropped(0x0123456789abcdef));
    rig_settle(rig);
    char mask[41] = "";
    for (size_t i = 0; i < 40; i++)
        mask[i] = out[i] == 0 ? '.' : '#';
    assert_string_equal(mask, "...##.##..#.#.#.#..#.#..####..##...#.###");
}

static void a_mask_is_the_same_on_every_instruction_set(void **state)
{
    (void)state;
    rig_try_everywhere(check_mask, 1);
}

static void check_normal(struct rig *rig, uint64_t trial)
{
    float *out = rig_output(rig, MANY);
    kernel_fill_normal(rig->queue, rig_values(rig, out), 0.5f, trial, 0, MANY);
    rig_settle(rig);
    double sum = 0, squares = 0;
    size_t within = 0;
    for (size_t i = 0; i < MANY; i++) {
        sum += (double)out[i];
        squares += (double)out[i] * (double)out[i];
        within += fabsf(out[i]) < 0.5f;
    }
    assert_true(fabs(sum / MANY) < 0.01);
    assert_true(fabs(squares / MANY - 0.25) < 0.01);
    assert_true(fabs((double)within / MANY - 0.6827) < 0.01);
    if (trial == 1)  // pinned: the same weights on every machine
        assert_true(out[0] == rig_round(0.649101257f) && out[1] == rig_round(0.326499939f)
                    && out[MANY - 1] == rig_round(-0.401855469f));
}

static void normal_numbers_have_their_mean_and_deviation(void **state)
{
    (void)state;
    rig_try_everywhere(check_normal, 3);
}

// One at a time they are the numbers they are together, also where counters begin again.
static void check_first_normal(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    const uint64_t first = trial ? (trial << 28) - random_below(&rig->seed, count) : 0;
    float *together = rig_output(rig, count), *apart = rig_output(rig, count);
    kernel_fill_normal(rig->queue, rig_values(rig, together), 0.5f, trial, first, count);
    for (size_t i = 0; i < count; i++)
        kernel_fill_normal(rig->queue, rig_values(rig, apart + i), 0.5f, trial, first + i, 1);
    rig_settle(rig);
    assert_memory_equal(apart, together, count * sizeof(float));
}

static void normal_numbers_are_the_same_wherever_one_begins(void **state)
{
    (void)state;
    rig_try_everywhere(check_first_normal, test_trials(20, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adding_scaling_and_filling_are_exact),
        cmocka_unit_test(narrowing_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(gelu_and_its_slope_equal_the_formulas),
        cmocka_unit_test(gelu_takes_nan_and_infinities_to_their_limits),
        cmocka_unit_test(relu_passes_what_is_positive_or_not_a_number),
        cmocka_unit_test(a_branch_ends_in_bias_dropout_and_residual),
        cmocka_unit_test(dropout_drops_its_share_and_scales_the_rest),
        cmocka_unit_test(a_piece_is_dropped_as_in_the_whole),
        cmocka_unit_test(each_of_seed_step_micro_batch_and_layer_gives_another_mask),
        cmocka_unit_test(a_mask_is_the_same_on_every_instruction_set),
        cmocka_unit_test(normal_numbers_have_their_mean_and_deviation),
        cmocka_unit_test(normal_numbers_are_the_same_wherever_one_begins),
    };
    return cmocka_run_group_tests_name("elementwise", tests, NULL, NULL);
}
