// Beside the kernels of the CPU, which tests/device/test_pictures.c holds against their formulas.
#include "tests/device/cuda/cuda_rig.h"

static struct queue *cpu_queue(struct device **device)
{
    struct error error = { 0 };
    *device = device_open("cpu:baseline", &error);
    assert_good(*device, error);
    struct queue *queue = queue_create(*device, &error);
    assert_good(queue, error);
    return queue;
}

static void cpu_close(struct queue *queue, struct device *device)
{
    struct error error = { 0 };
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    device_close(device);
}

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

static const struct values *values_of(const float *floats)
{
    return (const struct values *)floats;
}

static uint8_t *out_bytes(struct cuda_rig *rig, size_t count)
{
    return cuda_rig_bytes(rig, count, 1, true);
}

static void must_all_be_near(const float *got, const float *want, size_t count, double tolerance, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * (1 + fabs((double)want[i]))))
            fail_msg("%s[%zu] is %.9g, should be %.9g", what, i, (double)got[i], (double)want[i]);
}

static void must_all_equal(const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        must_equal((double)got[i], (double)want[i], what, i);
}

static const size_t some_channels[] = { 1, 3, 8, 37, 64, 12, 260 };

// --- batch norm --------------------------------------------------------------------

// Few rows, or enough for several tiles down; some trials have rows that do not count.
static struct batch_norm some_norm(struct cuda_rig *rig, uint64_t trial)
{
    struct batch_norm norm = { .channels = some_channels[trial % 7], .has_relu = trial / 2 % 2 };
    norm.rows = trial % 3 == 2 && norm.channels < 100 ? 200 + random_below(&rig->seed, 400) : some_size(rig, 40);
    norm.counted = trial % 4 == 3 ? random_below(&rig->seed, norm.rows + 1) : norm.rows;
    norm.in = values(some_floats(rig, norm.rows * norm.channels, 3));
    norm.gain = values(some_floats(rig, norm.channels, 2));
    norm.offset = values(some_floats(rig, norm.channels, 1));
    norm.add = trial % 5 == 1 ? values(some_floats(rig, norm.rows * norm.channels, 2)) : NULL;
    return norm;
}

// A row of two equal numbers, or one, has a deviation that makes what is off by a bit off by many.
static double tolerance_of(const float *rstd, size_t channels)
{
    double most = 1;
    for (size_t c = 0; c < channels; c++)
        most = fmax(most, (double)rstd[c]);
    return 3e-6 * most;
}

// Bits may differ where the output is a 0 more or less.
static void must_have_passed(const uint8_t *passed, const struct batch_norm *norm, const float *out)
{
    for (size_t i = 0; i < norm->rows * norm->channels; i++) {
        const size_t row = i / norm->channels, c = i % norm->channels;
        const bool has_passed = passed[row * ((norm->channels + 7) / 8) + c / 8] >> c % 8 & 1;
        assert_true(has_passed == (out[i] > 0));
    }
    for (size_t row = 0; norm->channels % 8 && row < norm->rows; row++)
        assert_true(passed[(row + 1) * ((norm->channels + 7) / 8) - 1] >> norm->channels % 8 == 0);
}

static void check_batch_norm(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct batch_norm norm = some_norm(rig, trial);
    const size_t channels = norm.channels, count = norm.rows * channels;
    const size_t bytes = (size_t)batch_norm_passed_bytes(norm.rows, channels);
    float *out = out_floats(rig, count), *mean = out_floats(rig, channels), *rstd = out_floats(rig, channels);
    float *statistics = trial % 2 ? out_floats(rig, batch_norm_statistics(channels)) : NULL;
    float *want = some_floats(rig, count, 1), *want_mean = some_floats(rig, channels, 1);
    float *want_rstd = some_floats(rig, channels, 1), *told = some_floats(rig, batch_norm_statistics(channels), 1);
    uint8_t *passed = norm.has_relu ? out_bytes(rig, bytes) : NULL;
    uint8_t *want_passed = norm.has_relu ? out_bytes(rig, bytes) : NULL;
    kernel_batch_norm(queue, &norm, values(want), want_mean, want_rstd, want_passed, told);
    must_launch(cuda_batch_norm(&rig->launch, &norm, values(out), mean, rstd, passed, statistics));
    must_all_be_near(mean, want_mean, channels, 1e-7, "mean");
    must_all_be_near(rstd, want_rstd, channels, 1e-6, "rstd");
    if (statistics)
        must_all_be_near(statistics, told, batch_norm_statistics(channels), 1e-6, "statistics");
    must_all_be_near(out, want, count, tolerance_of(rstd, channels), "norm");
    if (passed)
        must_have_passed(passed, &norm, out);
    cpu_close(queue, device);
}

static void batch_norm_equals_that_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_batch_norm, test_trials(28, 280));
}

static void check_running(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct batch_norm norm = some_norm(rig, trial);
    const size_t count = norm.rows * norm.channels;
    float *mean = some_floats(rig, norm.channels, 2), *variance = some_floats(rig, norm.channels, 2);
    float *out = out_floats(rig, count), *want = some_floats(rig, count, 1);
    for (size_t c = 0; c < norm.channels; c++)
        variance[c] = fabsf(variance[c]) + 0.1f;
    kernel_batch_norm_running(queue, &norm, values(want), mean, variance);
    must_launch(cuda_batch_norm_running(&rig->launch, &norm, values(out), mean, variance));
    must_all_be_near(out, want, count, 5e-6, "norm");
    cpu_close(queue, device);
}

static void an_evaluation_norms_as_on_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_running, test_trials(14, 140));
}

static void check_backward(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct batch_norm norm = some_norm(rig, trial);
    const size_t channels = norm.channels, count = norm.rows * channels;
    const size_t bytes = (size_t)batch_norm_passed_bytes(norm.rows, channels);
    const float *gradient = some_floats(rig, count, 2), *mean = some_floats(rig, channels, 1);
    const float *rstd = some_floats(rig, channels, 2);
    float *in_gradient = out_floats(rig, count), *sums = out_floats(rig, 2 * channels);
    float *alone = out_floats(rig, 2 * channels), *add = norm.add ? out_floats(rig, count) : NULL;
    float *want = some_floats(rig, count, 1), *want_sums = some_floats(rig, 2 * channels, 1);
    float *want_add = norm.add ? some_floats(rig, count, 1) : NULL;
    uint8_t *passed = norm.has_relu ? out_bytes(rig, bytes) : NULL;
    for (size_t i = 0; passed && i < bytes; i++)
        passed[i] = (uint8_t)random_below(&rig->seed, 256);
    kernel_batch_norm_backward(queue, &norm, values(want), values(want_add), want_sums, values_of(gradient), mean,
                               rstd, passed);
    if (trial % 2)
        memcpy(in_gradient, gradient, count * sizeof *gradient);  // which it then goes over
    must_launch(cuda_batch_norm_backward(&rig->launch, &norm, NULL, NULL, alone, values_of(gradient), mean, rstd,
                                         passed));
    must_launch(cuda_batch_norm_backward(&rig->launch, &norm, values(in_gradient), values(add), sums,
                                         values_of(trial % 2 ? in_gradient : gradient), mean, rstd, passed));
    assert_memory_equal(alone, sums, 2 * channels * sizeof *sums);
    must_all_be_near(sums, want_sums, 2 * channels, 1e-5, "sums");
    must_all_be_near(in_gradient, want, count, 2e-5, "gradient");
    must_all_equal(add ? add : want, add ? want_add : want, count, "gradient of the summand");
    cpu_close(queue, device);
}

static void the_backward_of_batch_norm_equals_that_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_backward, test_trials(28, 280));
}

// The same bits.
static void check_statistics(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const size_t channels = some_channels[trial % 7], numbers = batch_norm_sums(channels);
    double *sums = cuda_rig_bytes(rig, numbers, sizeof *sums, true);
    double *want = cuda_rig_bytes(rig, numbers, sizeof *want, false);
    float *mean = some_floats(rig, channels, 1), *variance = some_floats(rig, channels, 1);
    float *want_mean = some_floats(rig, channels, 1), *want_variance = some_floats(rig, channels, 1);
    memcpy(want_mean, mean, channels * sizeof *mean);
    memcpy(want_variance, variance, channels * sizeof *variance);
    for (size_t part = 0; part < 1 + trial % 4; part++) {
        float *statistics = some_floats(rig, batch_norm_statistics(channels), 3);
        statistics[2 * channels] = (float)(trial / 2 % 3 * part);
        kernel_batch_norm_merge(queue, want, statistics, channels, part == 0);
        must_launch(cuda_batch_norm_merge(&rig->launch, sums, statistics, channels, part == 0));
    }
    kernel_batch_norm_fold(queue, want_mean, want_variance, want, channels, 0.1f);
    must_launch(cuda_batch_norm_fold(&rig->launch, mean, variance, sums, channels, 0.1f));
    assert_memory_equal(sums, want, numbers * sizeof *sums);
    assert_memory_equal(mean, want_mean, channels * sizeof *mean);
    assert_memory_equal(variance, want_variance, channels * sizeof *variance);
    cpu_close(queue, device);
}

static void statistics_have_the_bits_of_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_statistics, test_trials(28, 280));
}

// --- pooling ------------------------------------------------------------------------

static const struct window windows[] = {
    { 2, 2, 2, 2, 0, 0 }, { 3, 3, 2, 2, 1, 1 }, { 3, 3, 1, 1, 1, 1 }, { 0, 0, 1, 1, 0, 0 },  // the fourth: of all
    { 3, 2, 1, 2, 1, 0 }, { 2, 1, 3, 3, 1, 0 },                                            // the last leaves pixels out
};

static struct pooling some_pooling(struct cuda_rig *rig, uint64_t trial)
{
    struct pooling p = { .batch = 1 + trial % 3, .height = 3 + random_below(&rig->seed, 6),
                         .width = 3 + random_below(&rig->seed, 6), .channels = some_channels[trial % 5],
                         .window = windows[trial % 6] };
    if (p.window.height == 0)
        p.window.height = p.height, p.window.width = p.width;
    return p;
}

// Some equal, and some NaN.
static float *few_floats(struct cuda_rig *rig, uint64_t trial, size_t count)
{
    float *in = some_floats(rig, count, 1);
    for (size_t i = 0; trial % 2 && i < count; i++)
        in[i] = random_below(&rig->seed, 12) ? (float)random_below(&rig->seed, 4) - 5 : NAN;
    return in;
}

static void check_pooling(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct pooling p = some_pooling(rig, trial);
    const size_t large = p.batch * p.height * p.width * p.channels;
    const size_t count = p.batch * pooling_height(&p) * pooling_width(&p) * p.channels;
    const float *in = few_floats(rig, trial, large), *plain = some_floats(rig, large, 1);
    const float *gradient = some_floats(rig, count, 1);
    float *out = out_floats(rig, count), *in_gradient = out_floats(rig, large);
    float *average = out_floats(rig, count), *average_gradient = out_floats(rig, large);
    float *want = some_floats(rig, count, 1), *want_gradient = some_floats(rig, large, 1);
    uint8_t *won = out_bytes(rig, count), *want_won = out_bytes(rig, count);
    kernel_max_pool(queue, &p, values(want), want_won, values_of(in));
    kernel_max_pool_backward(queue, &p, values(want_gradient), values_of(gradient), want_won);
    must_launch(cuda_max_pool(&rig->launch, &p, values(out), won, values_of(in)));
    must_launch(cuda_max_pool_backward(&rig->launch, &p, values(in_gradient), values_of(gradient), won));
    must_all_equal(out, want, count, "largest");
    assert_memory_equal(won, want_won, count);
    must_all_equal(in_gradient, want_gradient, large, "gradient of the largest");
    kernel_average_pool(queue, &p, values(want), values_of(plain));
    kernel_average_pool_backward(queue, &p, values(want_gradient), values_of(gradient));
    must_launch(cuda_average_pool(&rig->launch, &p, values(average), values_of(plain)));
    must_launch(cuda_average_pool_backward(&rig->launch, &p, values(average_gradient), values_of(gradient)));
    must_all_equal(average, want, count, "average");
    must_all_equal(average_gradient, want_gradient, large, "gradient of the average");
    cpu_close(queue, device);
}

static void pooling_equals_that_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_pooling, test_trials(30, 300));
}

// --- branches -------------------------------------------------------------------------

static void check_branches(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct upsampling u = { .batch = 1 + trial % 2, .height = 1 + random_below(&rig->seed, 4),
                                  .width = 1 + random_below(&rig->seed, 4), .channels = some_channels[trial % 5],
                                  .factor = 1 + trial % 3 };
    const size_t count = u.batch * u.height * u.width * u.channels, large = count * u.factor * u.factor;
    const float *in = some_floats(rig, count, 1), *gradient = some_floats(rig, large, 1);
    float *out = out_floats(rig, large), *in_gradient = out_floats(rig, count);
    float *want = some_floats(rig, large, 1), *want_gradient = some_floats(rig, count, 1);
    kernel_upsample(queue, &u, values(want), values_of(in));
    kernel_upsample_backward(queue, &u, values(want_gradient), values_of(gradient));
    must_launch(cuda_upsample(&rig->launch, &u, values(out), values_of(in)));
    must_launch(cuda_upsample_backward(&rig->launch, &u, values(in_gradient), values_of(gradient)));
    must_all_equal(out, want, large, "larger picture");
    must_all_equal(in_gradient, want_gradient, count, "gradient");
    const size_t rows = some_size(rig, 20), columns = some_channels[trial % 5], wide = columns + trial % 3 * 4;
    const size_t longer = columns + trial / 3 % 3 * 3;
    const float *from = some_floats(rig, rows * longer, 1);
    float *before, *to = some_sums(rig, rows * wide, &before);
    kernel_copy_columns(queue, values(before), values_of(from), rows, columns, wide, longer);
    must_launch(cuda_copy_columns(&rig->launch, values(to), values_of(from), rows, columns, wide, longer));
    assert_memory_equal(to, before, rows * wide * sizeof *to);
    cpu_close(queue, device);
}

static void branches_are_joined_and_widened_as_on_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_branches, test_trials(24, 240));
}

int main(void)
{
    const struct CMUnitTest cuda_pictures[] = {
        cmocka_unit_test(batch_norm_equals_that_of_the_cpu),
        cmocka_unit_test(an_evaluation_norms_as_on_the_cpu),
        cmocka_unit_test(the_backward_of_batch_norm_equals_that_of_the_cpu),
        cmocka_unit_test(statistics_have_the_bits_of_those_of_the_cpu),
        cmocka_unit_test(pooling_equals_that_of_the_cpu),
        cmocka_unit_test(branches_are_joined_and_widened_as_on_the_cpu),
    };
    return cmocka_run_group_tests(cuda_pictures, NULL, NULL);
}
