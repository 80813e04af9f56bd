#include "device/picture_kernels.h"
#include "tests/device/kernel_rig.h"

static const size_t some_channels[] = { 1, 3, 8, 37, 64, 16, 600 };

// The bits of a trial must be those that the first instruction set left for the same precision.
enum { MOST_TRIALS = 1000, PRECISIONS = 3 };
typedef char trial_digits[PRECISIONS][MOST_TRIALS][HASH_SIZE];

static void must_be_alike(trial_digits digits, uint64_t trial, const void *bytes, size_t count)
{
    char own[HASH_SIZE], *first = digits[rig_precision][trial];
    assert_true(trial < MOST_TRIALS);
    hash_bytes(bytes, count, own);
    if (first[0] == '\0')
        memcpy(first, own, HASH_SIZE);
    assert_string_equal(first, own);
}

// --- batch norm ---------------------------------------------------------------------

// Mean and sum of squared differences of a channel, in double.
struct moments {
    double mean, squares, rstd;
};

static struct moments moments_of(const float *in, size_t rows, size_t channels, size_t c)
{
    struct moments m = { 0 };
    for (size_t row = 0; row < rows; row++)
        m.mean += (double)in[row * channels + c] / (double)rows;
    for (size_t row = 0; row < rows; row++)
        m.squares += ((double)in[row * channels + c] - m.mean) * ((double)in[row * channels + c] - m.mean);
    m.rstd = 1 / sqrt((rows > 0 ? m.squares / (double)rows : 0) + 1e-5);
    return m;
}

struct norm_trial {
    struct batch_norm norm;
    float *in, *gain, *offset, *add;
    float *out, *mean, *rstd, *statistics;
    uint8_t *passed;
    size_t count;
};

// Inputs about a mean of 2; now and then the output goes over one of them.
static struct norm_trial some_norm(struct rig *rig, uint64_t trial)
{
    struct norm_trial t = { 0 };
    const size_t channels = some_channels[trial % 7], rows = 1 + random_below(&rig->seed, channels < 600 ? 150 : 40);
    t.count = rows * channels;
    t.in = rig_numbers(rig, t.count, 3);
    for (size_t i = 0; i < t.count; i++)
        t.in[i] += 2;
    t.gain = rig_numbers(rig, channels, 2);
    t.offset = rig_numbers(rig, channels, 1);
    t.add = trial % 3 == 1 ? rig_numbers(rig, t.count, 2) : NULL;
    t.norm = (struct batch_norm){ .rows = rows, .counted = rows, .channels = channels, .has_relu = trial / 2 % 2 };
    if (trial % 4 == 3)
        t.norm.counted = random_below(&rig->seed, rows + 1);
    t.mean = rig_output(rig, channels);
    t.rstd = rig_output(rig, channels);
    t.statistics = trial % 5 ? rig_output(rig, batch_norm_statistics(channels)) : NULL;
    const size_t bytes = (size_t)batch_norm_passed_bytes(rows, channels);
    t.passed = t.norm.has_relu ? memset(rig_output(rig, (bytes + 3) / 4), 0, (bytes + 3) / 4 * 4) : NULL;
    t.out = rig_output(rig, t.count);
    t.norm.in = rig_values(rig, t.in), t.norm.add = rig_values(rig, t.add);
    t.norm.gain = rig_values(rig, t.gain), t.norm.offset = rig_values(rig, t.offset);
    return t;
}

static bool has_passed(const struct norm_trial *t, size_t row, size_t c)
{
    return !t->passed || t->passed[row * ((t->norm.channels + 7) / 8) + c / 8] >> c % 8 & 1;
}

static double normed(const struct norm_trial *t, const struct moments *m, size_t row, size_t c)
{
    const size_t i = row * t->norm.channels + c;
    return ((double)t->in[i] - m->mean) * m->rstd * (double)t->gain[c] + (double)t->offset[c]
        + (t->add ? (double)t->add[i] : 0);
}

// How far numbers of a channel may be off: what is divided by a small deviation is off by more.
static double tolerance_of(const struct moments *m)
{
    return 4e-6 * (1 + m->rstd);
}

static void must_be_normed(const struct norm_trial *t, const float *out, const struct moments *m, size_t counted,
                           size_t c)
{
    for (size_t row = 0; row < t->norm.rows; row++) {
        const double y = normed(t, m, row, c), want = t->norm.has_relu && y <= 0 ? 0 : y;
        const size_t i = row * t->norm.channels + c;
        rig_value_close_to(out[i], row < counted ? want : 0, tolerance_of(m), "norm", i);
        assert_true(row < counted || out[i] == 0);
    }
}

static void check_batch_norm(struct rig *rig, uint64_t trial)
{
    static trial_digits digits;
    const struct norm_trial t = some_norm(rig, trial);
    const size_t channels = t.norm.channels, counted = t.norm.counted;
    kernel_batch_norm(rig->queue, &t.norm, rig_values(rig, t.out), t.mean, t.rstd, t.passed, t.statistics);
    rig_settle(rig);
    for (size_t c = 0; c < channels; c++) {
        const struct moments m = moments_of(t.in, counted, channels, c);
        rig_close_to(t.mean[c], m.mean, 1e-7, "mean", c);
        assert_true(fabs((double)t.rstd[c] - m.rstd) <= 1e-6 * m.rstd);
        must_be_normed(&t, t.out, &m, counted, c);
        for (size_t row = 0; t.passed && row < t.norm.rows; row++) {
            const double y = normed(&t, &m, row, c);
            if (row >= counted || fabs(y) > tolerance_of(&m) * 10)
                assert_true(has_passed(&t, row, c) == (row < counted && y > 0));
            assert_true(has_passed(&t, row, c) == (t.out[row * channels + c] > 0));
        }
        if (t.statistics) {
            assert_true(t.statistics[c] == t.mean[c]);
            rig_close_to(t.statistics[channels + c], m.squares, 1e-6, "squares", c);
            assert_true(t.statistics[2 * channels] == (float)counted);
        }
    }
    for (size_t row = 0; t.passed && channels % 8 && row < t.norm.rows; row++)
        assert_true(t.passed[(row + 1) * ((channels + 7) / 8) - 1] >> channels % 8 == 0);  // bits behind the channels
    if (t.statistics)
        must_be_alike(digits, trial, t.statistics, batch_norm_statistics(channels) * sizeof(float));
    else
        must_be_alike(digits, trial, t.rstd, channels * sizeof(float));
}

static void batch_norm_equals_its_formula(void **state)
{
    (void)state;
    rig_try_everywhere(check_batch_norm, test_trials(84, 840));
}

// Over its input the output has the same bits. What a NaN meets becomes NaN, and passes.
static void check_norm_ends(struct rig *rig, uint64_t trial)
{
    struct norm_trial t = some_norm(rig, trial);
    float *over = rig_output(rig, t.count);
    memcpy(over, t.in, t.count * sizeof *over);
    kernel_batch_norm(rig->queue, &t.norm, rig_values(rig, t.out), t.mean, t.rstd, t.passed, t.statistics);
    t.norm.in = rig_values(rig, over);
    kernel_batch_norm(rig->queue, &t.norm, rig_values(rig, over), t.mean, t.rstd, t.passed, t.statistics);
    rig_settle(rig);
    assert_memory_equal(over, t.out, t.count * sizeof *over);
    const size_t c = random_below(&rig->seed, t.norm.channels);
    t.in[c] = NAN;
    t.norm.in = rig_values(rig, t.in);
    kernel_batch_norm(rig->queue, &t.norm, rig_values(rig, t.out), t.mean, t.rstd, t.passed, t.statistics);
    rig_settle(rig);
    for (size_t i = 0; i < t.count; i++) {
        const size_t row = i / t.norm.channels;
        const bool is_nan = i % t.norm.channels == c && row < t.norm.counted;
        assert_true(isnan(t.out[i]) == is_nan);
        assert_true(!is_nan || has_passed(&t, row, c));
    }
}

static void batch_norm_may_go_over_its_input_and_keeps_nan(void **state)
{
    (void)state;
    rig_try_everywhere(check_norm_ends, test_trials(21, 210));
}

static void check_running(struct rig *rig, uint64_t trial)
{
    const struct norm_trial t = some_norm(rig, trial);
    const float *mean = rig_numbers(rig, t.norm.channels, 3);
    float *variance = rig_numbers(rig, t.norm.channels, 3);
    for (size_t c = 0; c < t.norm.channels; c++)
        variance[c] = fabsf(variance[c]);
    kernel_batch_norm_running(rig->queue, &t.norm, rig_values(rig, t.out), mean, variance);
    rig_settle(rig);
    memset(t.mean, 0, t.norm.channels * sizeof *t.mean);  // these are not of an evaluation
    memset(t.rstd, 0, t.norm.channels * sizeof *t.rstd);
    if (t.statistics)
        memset(t.statistics, 0, batch_norm_statistics(t.norm.channels) * sizeof(float));
    for (size_t c = 0; c < t.norm.channels; c++) {
        const struct moments m = { .mean = (double)mean[c], .rstd = 1 / sqrt((double)variance[c] + 1e-5) };
        must_be_normed(&t, t.out, &m, t.norm.rows, c);
        for (size_t i = 0; t.passed && i < batch_norm_passed_bytes(t.norm.rows, t.norm.channels); i++)
            assert_true(t.passed[i] == 0);  // is not written
    }
}

static void an_evaluation_norms_by_running_statistics(void **state)
{
    (void)state;
    rig_try_everywhere(check_running, test_trials(42, 420));
}

// The sum over all outputs of a channel times `gradient`, in double, with one number of the input moved by `step`.
static double weighed(const struct norm_trial *t, const float *gradient, size_t c, size_t moved, double step)
{
    const size_t counted = t->norm.counted, channels = t->norm.channels;
    double mean = step / (double)counted, squares = 0, sum = 0;
    for (size_t row = 0; row < counted; row++)
        mean += (double)t->in[row * channels + c] / (double)counted;
    for (size_t row = 0; row < counted; row++) {
        const double x = (double)t->in[row * channels + c] + (row == moved ? step : 0) - mean;
        squares += x * x;
    }
    for (size_t row = 0; row < counted; row++) {
        const double x = (double)t->in[row * channels + c] + (row == moved ? step : 0) - mean;
        const double y = x / sqrt(squares / (double)counted + 1e-5) * (double)t->gain[c];
        sum += has_passed(t, row, c) ? y * (double)gradient[row * channels + c] : 0;
    }
    return sum;
}

static void must_be_its_difference(const struct norm_trial *t, const float *gradient, const float *in_gradient,
                                   uint64_t *seed)
{
    const size_t row = random_below(seed, t->norm.counted), c = random_below(seed, t->norm.channels);
    const double step = 1e-5, above = weighed(t, gradient, c, row, step), below = weighed(t, gradient, c, row, -step);
    const size_t i = row * t->norm.channels + c;
    if (t->rstd[c] < 20)  // else the steps are long beside the deviation
        rig_value_close_to(in_gradient[i], (above - below) / (2 * step), 1e-4 * (1 + (double)t->rstd[c]), "difference",
                           i);
}

static void check_backward(struct rig *rig, uint64_t trial)
{
    static trial_digits digits;
    const struct norm_trial t = some_norm(rig, trial);
    const size_t channels = t.norm.channels, counted = t.norm.counted;
    const float *gradient = rig_numbers(rig, t.count, 2);
    float *in_gradient = rig_output(rig, t.count), *sums = rig_output(rig, 2 * channels);
    float *add_gradient = t.add ? rig_output(rig, t.count) : NULL, *sums_alone = rig_output(rig, 2 * channels);
    if (trial % 2)
        memcpy(in_gradient, gradient, t.count * sizeof *gradient);  // which it then goes over
    kernel_batch_norm(rig->queue, &t.norm, rig_values(rig, t.out), t.mean, t.rstd, t.passed, t.statistics);
    kernel_batch_norm_backward(rig->queue, &t.norm, NULL, NULL, sums_alone, rig_values(rig, gradient), t.mean, t.rstd,
                               t.passed);
    kernel_batch_norm_backward(rig->queue, &t.norm, rig_values(rig, in_gradient), rig_values(rig, add_gradient), sums,
                               rig_values(rig, trial % 2 ? in_gradient : gradient), t.mean, t.rstd, t.passed);
    rig_settle(rig);
    assert_memory_equal(sums, sums_alone, 2 * channels * sizeof *sums);
    for (size_t c = 0; c < channels; c++) {
        const double mean = (double)t.mean[c], rstd = (double)t.rstd[c];
        double sum = 0, sum_h = 0, size = 1;
        for (size_t row = 0; row < counted; row++) {
            const double g = has_passed(&t, row, c) ? (double)gradient[row * channels + c] : 0;
            sum += g;
            sum_h += g * ((double)t.in[row * channels + c] - mean) * rstd;
            size += fabs(g * ((double)t.in[row * channels + c] - mean) * rstd);
        }
        assert_true(fabs((double)sums[c] - sum_h) <= 1e-6 * size);
        rig_close_to(sums[channels + c], sum, 1e-6, "sum", c);
        for (size_t row = 0; row < t.norm.rows; row++) {
            const size_t i = row * channels + c;
            const double g = row < counted && has_passed(&t, row, c) ? (double)gradient[i] : 0;
            const double h = ((double)t.in[i] - mean) * rstd, n = (double)counted;
            const double want = (double)t.gain[c] * rstd * (g - sum / n - h * sum_h / n);
            assert_true(!add_gradient || add_gradient[i] == (float)g);
            if (row < counted)
                rig_value_close_to(in_gradient[i], want, 1e-5 * (1 + rstd), "gradient", i);
            else
                assert_true(in_gradient[i] == 0);
        }
    }
    for (size_t i = 0; counted > 0 && i < 5; i++)
        must_be_its_difference(&t, gradient, in_gradient, &rig->seed);
    must_be_alike(digits, trial, sums, 2 * channels * sizeof *sums);
}

static void the_backward_of_batch_norm_equals_its_formula_and_differences(void **state)
{
    (void)state;
    rig_try_everywhere(check_backward, test_trials(84, 840));
}

// Micro-batches, some of one row or of none, against one pass over all of their rows.
static void check_merge(struct rig *rig, uint64_t trial)
{
    static trial_digits digits;
    const size_t channels = some_channels[trial % 5], parts = 1 + trial % 4, most = 30;
    const float momentum = 0.1f;
    float *in = rig_numbers(rig, parts * most * channels, 3), *ones = rig_numbers(rig, channels, 1);
    float *out = rig_numbers(rig, most * channels, 1);
    double *sums = (double *)(void *)rig_output(rig, 2 * batch_norm_sums(channels));
    float *statistics = rig_output(rig, batch_norm_statistics(channels)), *moments = rig_output(rig, 2 * channels);
    float *mean = rig_output(rig, channels), *variance = rig_output(rig, channels);
    size_t rows = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t counted = trial % 3 ? random_below(&rig->seed, most) : trial / 3 % 3;
        const struct batch_norm norm = { .in = rig_values(rig, in + rows * channels), .gain = rig_values(rig, ones),
                                         .offset = rig_values(rig, ones), .rows = counted, .counted = counted,
                                         .channels = channels };
        kernel_batch_norm(rig->queue, &norm, rig_values(rig, out), moments, moments + channels, NULL, statistics);
        kernel_batch_norm_merge(rig->queue, sums, statistics, channels, part == 0);
        rows += counted;
    }
    for (size_t c = 0; c < channels; c++)
        mean[c] = 0.5f, variance[c] = 2;
    kernel_batch_norm_fold(rig->queue, mean, variance, sums, channels, momentum);
    rig_settle(rig);
    assert_true(sums[2 * channels] == (double)rows);
    for (size_t c = 0; c < channels; c++) {
        const struct moments m = moments_of(in, rows, channels, c);
        rig_close_to((float)sums[c], m.mean, 1e-6, "mean of all", c);
        rig_close_to((float)sums[channels + c], m.squares, 1e-6, "squares of all", c);
        const double moved = rows > 0 ? 0.5 + (double)momentum * (m.mean - 0.5) : 0.5;
        const double spread = rows > 1 ? 2 + (double)momentum * (m.squares / (double)(rows - 1) - 2) : 2;
        rig_close_to(mean[c], moved, 1e-6, "running mean", c);
        rig_close_to(variance[c], spread, 1e-6, "running variance", c);
    }
    must_be_alike(digits, trial, sums, batch_norm_sums(channels) * sizeof *sums);
}

static void merged_statistics_are_those_of_all_rows(void **state)
{
    (void)state;
    rig_try_everywhere(check_merge, test_trials(60, 600));
}

// --- pooling -------------------------------------------------------------------------

static const struct window windows[] = {
    { 2, 2, 2, 2, 0, 0 }, { 3, 3, 2, 2, 1, 1 }, { 3, 3, 1, 1, 1, 1 }, { 0, 0, 1, 1, 0, 0 },  // the fourth: of all
    { 3, 2, 1, 2, 1, 0 }, { 2, 1, 3, 3, 1, 0 },                                            // the last leaves pixels out
};

static struct pooling some_pooling(struct rig *rig, uint64_t trial)
{
    struct pooling p = { .batch = 1 + random_below(&rig->seed, 4), .height = 3 + random_below(&rig->seed, 8),
                         .width = 3 + random_below(&rig->seed, 8), .channels = some_channels[trial % 5],
                         .window = windows[trial % 6] };
    if (p.window.height == 0)
        p.window.height = p.height, p.window.width = p.width;
    return p;
}

static size_t in_count(const struct pooling *p)
{
    return p->batch * p->height * p->width * p->channels;
}

static size_t out_count(const struct pooling *p)
{
    return p->batch * pooling_height(p) * pooling_width(p) * p->channels;
}

// The pixel of a window, as an index into the input, or NO_PIXEL in the padding.
#define NO_PIXEL SIZE_MAX
static size_t pixel_of_window(const struct pooling *p, size_t i, size_t k)
{
    const size_t c = i % p->channels, x = i / p->channels % pooling_width(p);
    const size_t y = i / p->channels / pooling_width(p) % pooling_height(p);
    const size_t picture = i / p->channels / pooling_width(p) / pooling_height(p);
    const size_t row = y * p->window.stride_height + k / p->window.width - p->window.padding_height;
    const size_t column = x * p->window.stride_width + k % p->window.width - p->window.padding_width;
    if (row >= p->height || column >= p->width)
        return NO_PIXEL;
    return ((picture * p->height + row) * p->width + column) * p->channels + c;
}

static bool is_larger(float a, float b)
{
    return !isnan(b) && (isnan(a) || a > b);
}

// Numbers many of which are equal, negative in every other trial, with NaN and infinities now and then.
static float *few_numbers(struct rig *rig, uint64_t trial, size_t count)
{
    float *in = rig_numbers(rig, count, 1);
    for (size_t i = 0; i < count; i++) {
        in[i] = (float)random_below(&rig->seed, 4) - (trial / 6 % 2 ? 5 : 1);
        if (trial % 4 == 3 && random_below(&rig->seed, 6) == 0)
            in[i] = random_below(&rig->seed, 3) ? NAN : -INFINITY;
    }
    return in;
}

static void check_max_pool(struct rig *rig, uint64_t trial)
{
    const struct pooling p = some_pooling(rig, trial);
    const size_t count = out_count(&p), size = p.window.height * p.window.width;
    const float *in = trial % 3 ? few_numbers(rig, trial, in_count(&p)) : rig_numbers(rig, in_count(&p), 1);
    const float *gradient = rig_numbers(rig, count, 1);
    float *out = rig_output(rig, count), *in_gradient = rig_output(rig, in_count(&p));
    uint8_t *won = memset(rig_output(rig, (count + 3) / 4), 0, (count + 3) / 4 * 4);
    double *want = calloc(in_count(&p), sizeof *want);
    assert_non_null(want);
    kernel_max_pool(rig->queue, &p, rig_values(rig, out), won, rig_values(rig, in));
    kernel_max_pool_backward(rig->queue, &p, rig_values(rig, in_gradient), rig_values(rig, gradient), won);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        size_t winner = size;
        for (size_t k = 0; k < size; k++) {
            const size_t pixel = pixel_of_window(&p, i, k);
            if (pixel != NO_PIXEL && (winner == size || is_larger(in[pixel], in[pixel_of_window(&p, i, winner)])))
                winner = k;
        }
        const size_t largest = pixel_of_window(&p, i, winner);
        assert_true(won[i] == winner);
        assert_true(isnan(in[largest]) ? isnan(out[i]) : out[i] == in[largest]);
        want[largest] += (double)gradient[i];
    }
    for (size_t i = 0; i < in_count(&p); i++)
        rig_value_close_to(in_gradient[i], want[i], 1e-6, "gradient", i);
    free(want);
}

static void max_pooling_finds_the_first_of_the_largest(void **state)
{
    (void)state;
    rig_try_everywhere(check_max_pool, test_trials(120, 900));
}

static void check_average_pool(struct rig *rig, uint64_t trial)
{
    const struct pooling p = some_pooling(rig, trial);
    const size_t count = out_count(&p), size = p.window.height * p.window.width;
    const float *in = rig_numbers(rig, in_count(&p), 1), *gradient = rig_numbers(rig, count, 1);
    float *out = rig_output(rig, count), *in_gradient = rig_output(rig, in_count(&p));
    double *want = calloc(in_count(&p), sizeof *want);
    assert_non_null(want);
    kernel_average_pool(rig->queue, &p, rig_values(rig, out), rig_values(rig, in));
    kernel_average_pool_backward(rig->queue, &p, rig_values(rig, in_gradient), rig_values(rig, gradient));
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t k = 0; k < size; k++) {
            const size_t pixel = pixel_of_window(&p, i, k);
            sum += pixel != NO_PIXEL ? (double)in[pixel] : 0;
            if (pixel != NO_PIXEL)
                want[pixel] += (double)gradient[i] / (double)size;
        }
        rig_value_close_to(out[i], sum / (double)size, 1e-6, "average", i);
    }
    for (size_t i = 0; i < in_count(&p); i++)
        rig_value_close_to(in_gradient[i], want[i], 1e-6, "gradient", i);
    free(want);
}

static void average_pooling_counts_its_padding_as_zeros(void **state)
{
    (void)state;
    rig_try_everywhere(check_average_pool, test_trials(60, 600));
}

// --- branches --------------------------------------------------------------------------

static void check_copy_columns(struct rig *rig, uint64_t trial)
{
    const size_t rows = trial % 20, columns = rig_size(rig, 90), wide = columns + trial % 3 * 7;
    const size_t longer = columns + trial % 2 * 5;
    const float *in = rig_numbers(rig, rows * longer, 1);
    float *before, *out = rig_sums(rig, rows * wide, &before);
    kernel_copy_columns(rig->queue, rig_values(rig, out), rig_values(rig, in), rows, columns, wide, longer);
    rig_settle(rig);
    for (size_t i = 0; i < rows * wide; i++)
        assert_true(out[i] == (i % wide < columns ? in[i / wide * longer + i % wide] : before[i]));
}

static void columns_are_copied_and_nothing_beside_them(void **state)
{
    (void)state;
    rig_try_everywhere(check_copy_columns, test_trials(40, 400));
}

static void check_upsample(struct rig *rig, uint64_t trial)
{
    const struct upsampling u = { .batch = 1 + trial % 3, .height = 1 + random_below(&rig->seed, 6),
                                  .width = 1 + random_below(&rig->seed, 6), .channels = some_channels[trial % 5],
                                  .factor = 1 + trial % 4 };
    const size_t count = u.batch * u.height * u.width * u.channels, large = count * u.factor * u.factor;
    const float *in = rig_numbers(rig, count, 1), *gradient = rig_numbers(rig, large, 1);
    float *out = rig_output(rig, large), *in_gradient = rig_output(rig, count);
    double *want = calloc(count, sizeof *want);
    assert_non_null(want);
    kernel_upsample(rig->queue, &u, rig_values(rig, out), rig_values(rig, in));
    kernel_upsample_backward(rig->queue, &u, rig_values(rig, in_gradient), rig_values(rig, gradient));
    rig_settle(rig);
    for (size_t i = 0; i < large; i++) {
        const size_t pixel = i / u.channels, x = pixel % (u.width * u.factor), row = pixel / (u.width * u.factor);
        const size_t from = (row / u.factor * u.width + x / u.factor) * u.channels + i % u.channels;
        assert_true(out[i] == in[from]);
        want[from] += (double)gradient[i];
    }
    for (size_t i = 0; i < count; i++)
        rig_value_close_to(in_gradient[i], want[i], 1e-6, "gradient", i);
    free(want);
}

static void pixels_become_blocks_whose_gradients_add_up(void **state)
{
    (void)state;
    rig_try_everywhere(check_upsample, test_trials(40, 400));
}

// --- what is refused --------------------------------------------------------------------

static struct wrong_row {
    const char *name, *device;
    struct window window;
    const char *sentence;
} wrong_rows[] = {
    { "a window without pixels is refused", "cpu", { 2, 0, 1, 1, 0, 0 }, "a window of pooling has no pixels" },
    { "a window that stands still is refused", "cpu", { 2, 2, 0, 1, 0, 0 },
      "a window of pooling does not move (its stride is 0)" },
    { "padding of more than half a window is refused", "cpu", { 3, 3, 1, 1, 1, 2 },
      "the padding of pooling is larger than half of its window" },
    { "a window larger than its picture is refused", "cpu", { 7, 2, 1, 1, 0, 0 },
      "a window of pooling is larger than the picture with its padding" },
};

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

// Each call has a queue of its own, since a queue keeps its first error only.
static void must_fail(struct device *device, void (*call)(struct queue *queue, const struct window *window),
                      const struct window *window, const char *sentence)
{
    struct error error = { 0 };
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    call(queue, window);
    assert_false(queue_wait(queue, &error));
    assert_error(error, sentence);
    queue_free(queue);
}

static struct pooling pooling_by(const struct window *window)
{
    return (struct pooling){ .batch = 1, .height = 4, .width = 4, .channels = 1, .window = *window };
}

static void call_max_pool(struct queue *queue, const struct window *window)
{
    const struct pooling pooling = pooling_by(window);
    kernel_max_pool(queue, &pooling, NULL, NULL, NULL);
}

static void call_max_pool_backward(struct queue *queue, const struct window *window)
{
    const struct pooling pooling = pooling_by(window);
    kernel_max_pool_backward(queue, &pooling, NULL, NULL, NULL);
}

static void call_average_pool(struct queue *queue, const struct window *window)
{
    const struct pooling pooling = pooling_by(window);
    kernel_average_pool(queue, &pooling, NULL, NULL);
}

static void call_average_pool_backward(struct queue *queue, const struct window *window)
{
    const struct pooling pooling = pooling_by(window);
    kernel_average_pool_backward(queue, &pooling, NULL, NULL);
}

static void wrong_windows_fail_the_queue(void **state)
{
    const struct wrong_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open(row->device, &error);
    assert_good(device, error);
    must_fail(device, call_max_pool, &row->window, row->sentence);
    must_fail(device, call_max_pool_backward, &row->window, row->sentence);
    must_fail(device, call_average_pool, &row->window, row->sentence);
    must_fail(device, call_average_pool_backward, &row->window, row->sentence);
    device_close(device);
}

static void call_batch_norm(struct queue *queue, const struct window *window)
{
    (void)window;
    const struct batch_norm norm = { .rows = 3, .counted = 4, .channels = 1 };
    kernel_batch_norm(queue, &norm, NULL, NULL, NULL, NULL, NULL);
}

static void call_batch_norm_backward(struct queue *queue, const struct window *window)
{
    (void)window;
    const struct batch_norm norm = { .rows = 3, .counted = 4, .channels = 1 };
    kernel_batch_norm_backward(queue, &norm, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
}

static void call_upsample(struct queue *queue, const struct window *window)
{
    (void)window;
    const struct upsampling upsampling = { .batch = 1, .height = 1, .width = 1, .channels = 1 };
    kernel_upsample(queue, &upsampling, NULL, NULL);
}

static void call_copy_columns(struct queue *queue, const struct window *window)
{
    (void)window;
    kernel_copy_columns(queue, NULL, NULL, 2, 5, 5, 4);
}

static void wrong_sizes_fail_the_queue(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    const struct window large = { 16, 16, 1, 1, 8, 8 };
    must_fail(device, call_max_pool, &large, "max pooling has a window of more than 255 pixels");
    must_fail(device, call_max_pool_backward, &large, "max pooling has a window of more than 255 pixels");
    must_fail(device, call_batch_norm, NULL, "a batch norm counts more rows than it has");
    must_fail(device, call_batch_norm_backward, NULL, "a batch norm counts more rows than it has");
    must_fail(device, call_upsample, NULL, "upsampling has a factor of 0");
    must_fail(device, call_copy_columns, NULL, "a copy of columns has rows that are longer than their strides");
    device_close(device);
}

static void an_average_may_have_a_window_of_256_pixels(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    static float in[256], out[1];
    for (size_t i = 0; i < 256; i++)
        in[i] = (float)i;
    const struct pooling pooling = { .batch = 1, .height = 16, .width = 16, .channels = 1,
                                     .window = { 16, 16, 1, 1, 0, 0 } };
    kernel_average_pool(queue, &pooling, values(out), values(in));
    assert_good(queue_wait(queue, &error), error);
    assert_true(out[0] == 127.5f);
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_equals_its_formula),
        cmocka_unit_test(batch_norm_may_go_over_its_input_and_keeps_nan),
        cmocka_unit_test(an_evaluation_norms_by_running_statistics),
        cmocka_unit_test(the_backward_of_batch_norm_equals_its_formula_and_differences),
        cmocka_unit_test(merged_statistics_are_those_of_all_rows),
        cmocka_unit_test(max_pooling_finds_the_first_of_the_largest),
        cmocka_unit_test(average_pooling_counts_its_padding_as_zeros),
        cmocka_unit_test(columns_are_copied_and_nothing_beside_them),
        cmocka_unit_test(pixels_become_blocks_whose_gradients_add_up),
        TEST_ROW(wrong_windows_fail_the_queue, &wrong_rows[0]),
        TEST_ROW(wrong_windows_fail_the_queue, &wrong_rows[1]),
        TEST_ROW(wrong_windows_fail_the_queue, &wrong_rows[2]),
        TEST_ROW(wrong_windows_fail_the_queue, &wrong_rows[3]),
        cmocka_unit_test(wrong_sizes_fail_the_queue),
        cmocka_unit_test(an_average_may_have_a_window_of_256_pixels),
    };
    return cmocka_run_group_tests_name("pictures", tests, NULL, NULL);
}
