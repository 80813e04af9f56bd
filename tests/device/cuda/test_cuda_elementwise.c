#include "tests/device/cuda/cuda_rig.h"

static void check_sums(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t count = some_size(rig, 3000);
    const struct values *a = some_values(rig, count, 2), *b = some_values(rig, count, 2);
    const float *c = some_floats(rig, count, 2), *d = some_floats(rig, count, 2);
    struct values *filled = out_values(rig, count), *sum = out_values(rig, count), *narrow = out_values(rig, count);
    float *scaled = out_floats(rig, count), *added = out_floats(rig, count), *wide = out_floats(rig, count);
    must_launch(cuda_fill(&rig->launch, filled, 0.3f, count));
    must_launch(cuda_add(&rig->launch, sum, a, b, count));
    must_launch(cuda_scale(&rig->launch, scaled, c, 0.7f, count));
    must_launch(cuda_add_floats(&rig->launch, added, c, d, count));
    must_launch(cuda_widen(&rig->launch, wide, a, count));
    must_launch(cuda_narrow(&rig->launch, narrow, c, count));
    for (size_t i = 0; i < count; i++) {
        must_equal(value_at(rig, filled, i), rounded_to(rig->precision, 0.3f), "filled", i);
        const float both = value_at(rig, a, i) + value_at(rig, b, i);
        must_equal(value_at(rig, sum, i), rounded_to(rig->precision, both), "sum", i);
        must_equal(scaled[i], c[i] * 0.7f, "scaled", i);
        must_equal(added[i], c[i] + d[i], "added", i);
        must_equal(wide[i], value_at(rig, a, i), "widened", i);
        must_equal(value_at(rig, narrow, i), rounded_to(rig->precision, c[i]), "narrowed", i);
    }
}

static void numbers_are_filled_added_scaled_and_rounded_exactly(void **state)
{
    (void)state;
    cuda_rig_try(check_sums, test_trials(20, 400));
}

static void check_in_place(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t count = some_size(rig, 3000);
    const struct values *a = some_values(rig, count, 2);
    struct values *sum = out_values(rig, count);
    memcpy(sum, a, count * precision_bytes(rig->precision));
    must_launch(cuda_add(&rig->launch, sum, sum, sum, count));
    for (size_t i = 0; i < count; i++)
        must_equal(value_at(rig, sum, i), 2 * value_at(rig, a, i), "doubled", i);
}

static void an_output_may_be_its_input(void **state)
{
    (void)state;
    cuda_rig_try(check_in_place, test_trials(6, 60));
}

// Ties, the largest numbers, the smallest, and what is none.
static void check_rounding_ends(struct cuda_rig *rig, uint64_t trial)
{
    static const uint32_t ends[] = { 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7fffff, 0x7f7f7fff, 0xff7f8000,
                                     0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x00000001, 0x00008000, 0x00008001,
                                     0x80000000, 0x007fffff, 0x7fc00000 };
    enum { COUNT = sizeof ends / sizeof ends[0] };
    (void)trial;
    float *in = some_floats(rig, COUNT, 1);
    memcpy(in, ends, sizeof ends);
    struct values *out = out_values(rig, COUNT);
    must_launch(cuda_narrow(&rig->launch, out, in, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        must_equal(value_at(rig, out, i), rounded_to(rig->precision, in[i]), "narrowed", i);
}

static void rounding_is_to_nearest_even_and_keeps_nan(void **state)
{
    (void)state;
    cuda_rig_try(check_rounding_ends, 3);
}

// --- the CPU's bits ------------------------------------------------------------------

// The CPU's kernels, in fp32: what they give is rounded for the comparison.
struct on_cpu {
    struct device *device;
    struct queue *queue;
};

static struct on_cpu open_cpu(void)
{
    struct error error = { 0 };
    struct on_cpu cpu = { .device = device_open("cpu", &error) };
    assert_good(cpu.device, error);
    cpu.queue = queue_create(cpu.device, &error);
    assert_good(cpu.queue, error);
    return cpu;
}

static void close_cpu(struct on_cpu cpu)
{
    struct error error = { 0 };
    assert_good(queue_wait(cpu.queue, &error), error);
    queue_free(cpu.queue);
    device_close(cpu.device);
}

// Some numbers of either precision as the floats they are.
static struct values *widened(struct cuda_rig *rig, const struct values *values, size_t count)
{
    float *wide = some_floats(rig, count, 0);
    for (size_t i = 0; i < count; i++)
        wide[i] = value_at(rig, values, i);
    return (struct values *)(void *)wide;
}

static void must_round_to(const struct cuda_rig *rig, const struct values *got, const struct values *of, size_t count,
                          const char *what)
{
    const float *wide = (const float *)(const void *)of;
    for (size_t i = 0; i < count; i++)
        must_equal(value_at(rig, got, i), rounded_to(rig->precision, wide[i]), what, i);
}

static void check_normal(struct cuda_rig *rig, uint64_t trial)
{
    const size_t count = some_size(rig, 2000);
    struct values *out = out_values(rig, count), *want = widened(rig, out, count);
    const uint64_t key = random_next(&rig->seed);
    const uint64_t first = trial % 2 ? ((uint64_t)trial << 28) - random_below(&rig->seed, 2000) : 0;
    must_launch(cuda_fill_normal(&rig->launch, out, 0.02f, key, first, count));
    const struct on_cpu cpu = open_cpu();
    kernel_fill_normal(cpu.queue, want, 0.02f, key, first, count);
    close_cpu(cpu);
    must_round_to(rig, out, want, count, "normal");
}

static void normal_numbers_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_normal, test_trials(10, 200));
}

static void check_dropout(struct cuda_rig *rig, uint64_t trial)
{
    const size_t rows = some_size(rig, 20), columns = 1 + some_size(rig, 150), count = rows * columns;
    const struct dropout dropout = { .probability = trial % 4 ? 0.1f * (float)(trial % 4) : 0,
                                     .first = trial % 3 ? (uint32_t)random_below(&rig->seed, 1000) : 0,
                                     .key = random_next(&rig->seed) };
    struct values *in = some_values(rig, count, 2), *trunk = some_values(rig, count, 2);
    const struct values *bias = some_values(rig, columns, 2);
    struct values *dropped = out_values(rig, count), *out = out_values(rig, count);
    if (count)
        set_value(rig, in, count / 2, NAN);
    struct dropout on_gpu = dropout;  // every other time the key is told in memory, as in a recording
    uint64_t *key = cuda_rig_bytes(rig, 1, sizeof *key, true);
    *key = dropout.key;
    if (trial / 4 % 2)
        on_gpu.key = 0, on_gpu.key_at = key;
    must_launch(cuda_dropout(&rig->launch, dropped, in, count, on_gpu));
    must_launch(cuda_add_branch(&rig->launch, out, trunk, in, bias, rows, columns, on_gpu));
    struct values *want_dropped = widened(rig, in, count), *want = widened(rig, in, count);
    const struct values *wide_trunk = widened(rig, trunk, count), *wide_bias = widened(rig, bias, columns);
    const struct on_cpu cpu = open_cpu();
    kernel_dropout(cpu.queue, want_dropped, want_dropped, count, dropout);
    kernel_add_branch(cpu.queue, want, wide_trunk, want, wide_bias, rows, columns, dropout);
    close_cpu(cpu);
    must_round_to(rig, dropped, want_dropped, count, "dropped");
    must_round_to(rig, out, want, count, "added");
}

static void dropout_drops_what_the_cpu_drops(void **state)
{
    (void)state;
    cuda_rig_try(check_dropout, test_trials(16, 300));
}

// --- activations --------------------------------------------------------------------------

static void check_relu(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t count = some_size(rig, 2500);
    struct values *in = some_values(rig, count, 2), *gradient = some_values(rig, count, 2);
    struct values *out = out_values(rig, count), *back = out_values(rig, count);
    uint8_t *passed = cuda_rig_bytes(rig, count, 1, true);
    if (count)
        set_value(rig, in, 0, NAN);
    must_launch(cuda_relu(&rig->launch, out, passed, in, count));
    must_launch(cuda_relu_backward(&rig->launch, back, gradient, passed, count));
    for (size_t i = 0; i < count; i++) {
        const float x = value_at(rig, in, i);
        must_equal(value_at(rig, out, i), x <= 0 ? 0 : x, "relu", i);
        must_equal(passed[i], !(x <= 0), "passed", i);
        must_equal(value_at(rig, back, i), x <= 0 ? 0 : value_at(rig, gradient, i), "relu's gradient", i);
    }
}

static void relu_passes_what_is_above_zero(void **state)
{
    (void)state;
    cuda_rig_try(check_relu, test_trials(10, 200));
}

static double gelu_in_double(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope_in_double(double x)
{
    const double inner = sqrt(2 / 3.14159265358979323846), t = tanh(inner * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * inner * (1 + 3 * 0.044715 * x * x);
}

static void check_gelu(struct cuda_rig *rig, uint64_t trial)
{
    const size_t count = some_size(rig, 2000);
    const double spread = trial % 2 ? 3 : 50;
    const struct values *in = some_values(rig, count, spread), *gradient = some_values(rig, count, 2);
    struct values *out = out_values(rig, count), *again = trial % 3 ? out_values(rig, count) : NULL;
    struct values *back = out_values(rig, count);
    must_launch(cuda_gelu(&rig->launch, out, in, count));
    must_launch(cuda_gelu_backward(&rig->launch, back, again, gradient, in, count));
    for (size_t i = 0; i < count; i++) {
        const double x = (double)value_at(rig, in, i), g = (double)value_at(rig, gradient, i);
        must_be_near(rig, value_at(rig, out, i), gelu_in_double(x), 1e-6, "gelu", i);
        must_be_near(rig, value_at(rig, back, i), g * gelu_slope_in_double(x), 3e-6, "gelu's gradient", i);
    }
    if (again)
        assert_memory_equal(again, out, count * precision_bytes(rig->precision));
}

static void gelu_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_gelu, test_trials(12, 200));
}

static void check_gelu_ends(struct cuda_rig *rig, uint64_t trial)
{
    static const float ends[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, 31, -31 };
    static const float want[] = { NAN, INFINITY, 0, 3e38f, 0, 0, 31, 0 };
    (void)trial;
    struct values *in = some_values(rig, 8, 1), *one = some_values(rig, 8, 1);
    struct values *out = out_values(rig, 8), *back = out_values(rig, 8);
    for (size_t i = 0; i < 8; i++)
        set_value(rig, in, i, ends[i]), set_value(rig, one, i, 1);
    must_launch(cuda_gelu(&rig->launch, out, in, 8));
    must_launch(cuda_gelu_backward(&rig->launch, back, NULL, one, in, 8));
    for (size_t i = 0; i < 8; i++) {
        must_equal(value_at(rig, out, i) + 0.0f, rounded_to(rig->precision, want[i]), "gelu", i);
        must_equal(value_at(rig, back, i) + 0.0f, i == 0 ? NAN : i == 5 ? 0.5 : want[i] > 0, "gelu's gradient", i);
    }
}

static void gelu_takes_nan_and_infinities_to_their_limits(void **state)
{
    (void)state;
    cuda_rig_try(check_gelu_ends, 3);
}

// --- what cuBLASLt may leave undone -----------------------------------------------------

static void check_matmul_end(struct cuda_rig *rig, uint64_t trial)
{
    const size_t rows = some_size(rig, 30), columns = 1 + some_size(rig, 100);
    const size_t stride = columns + (trial % 4 == 3 ? 8 : trial % 4 == 2 ? 3 : 0), count = rows * stride;
    const struct values *bias = trial % 5 ? some_values(rig, columns, 2) : NULL, *product = some_values(rig, count, 2);
    struct values *c = out_values(rig, count), *before = trial % 2 ? out_values(rig, count) : NULL;
    memcpy(c, product, count * precision_bytes(rig->precision));
    must_launch(cuda_end_matmul(&rig->launch, c, before, bias, rows, columns, stride));
    for (size_t i = 0; i < count; i++) {
        const float was = value_at(rig, product, i);
        if (i % stride >= columns) {
            must_equal(value_at(rig, c, i), was, "between rows", i);
            continue;
        }
        const float x = bias ? was + value_at(rig, bias, i % stride) : was;
        if (before) {
            must_equal(value_at(rig, before, i), rounded_to(rig->precision, x), "before GELU", i);
            must_be_near(rig, value_at(rig, c, i), gelu_in_double((double)x), 1e-6, "after GELU", i);
        } else {
            must_equal(value_at(rig, c, i), rounded_to(rig->precision, x), "with bias", i);
        }
    }
}

static void the_end_of_a_matrix_product_adds_its_bias_and_takes_its_gelu(void **state)
{
    (void)state;
    cuda_rig_try(check_matmul_end, test_trials(20, 300));
}

int main(void)
{
    const struct CMUnitTest cuda_elementwise[] = {
        cmocka_unit_test(numbers_are_filled_added_scaled_and_rounded_exactly),
        cmocka_unit_test(an_output_may_be_its_input),
        cmocka_unit_test(rounding_is_to_nearest_even_and_keeps_nan),
        cmocka_unit_test(normal_numbers_have_the_bits_of_the_cpu),
        cmocka_unit_test(dropout_drops_what_the_cpu_drops),
        cmocka_unit_test(relu_passes_what_is_above_zero),
        cmocka_unit_test(gelu_equals_its_formula),
        cmocka_unit_test(gelu_takes_nan_and_infinities_to_their_limits),
        cmocka_unit_test(the_end_of_a_matrix_product_adds_its_bias_and_takes_its_gelu),
    };
    return cmocka_run_group_tests(cuda_elementwise, NULL, NULL);
}
