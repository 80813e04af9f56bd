#include <stdio.h>
#include <stdlib.h>

#include "tests/device/cuda/cuda_rig.h"

// A span that begins anywhere in its tensors, as the cuts of a flat buffer do.
struct some_span {
    struct optimizer_span span;
    struct values *now;
    float *master_before, *first_before, *second_before;
};

static struct some_span cut_span(struct cuda_rig *rig, bool with_first, bool with_second)
{
    struct some_span s = { .span.count = some_size(rig, 3000) };
    const size_t count = s.span.count;
    s.now = some_values(rig, count, 1);
    s.span.weights = s.now;
    s.span.next = out_values(rig, count);
    s.span.gradients = some_floats(rig, count, 1);
    if (rig->precision != PRECISION_FP32)
        s.span.master = some_sums(rig, count, &s.master_before);
    if (with_first)
        s.span.first = some_sums(rig, count, &s.first_before);
    if (with_second)
        s.span.second = some_sums(rig, count, &s.second_before);
    for (size_t i = 0; with_second && i < count; i++)
        s.span.second[i] = s.second_before[i] = fabsf(s.second_before[i]);
    return s;
}

static float *same_floats(struct cuda_rig *rig, const float *from, size_t count)
{
    float *to = from ? out_floats(rig, count) : NULL;
    if (to)
        memcpy(to, from, count * sizeof *to);
    return to;
}

// Another, to be updated from the same.
static struct optimizer_span same_span(struct cuda_rig *rig, const struct optimizer_span *span)
{
    struct optimizer_span other = *span;
    other.next = out_values(rig, span->count);
    other.master = same_floats(rig, span->master, span->count);
    other.first = same_floats(rig, span->first, span->count);
    other.second = same_floats(rig, span->second, span->count);
    return other;
}

static double weight_before(const struct cuda_rig *rig, const struct some_span *s, size_t i)
{
    return (double)(s->span.master ? s->master_before[i] : value_at(rig, s->now, i));
}

// The weight in full is right, and what layers read is that, rounded.
static void must_be_weight(const struct cuda_rig *rig, const struct some_span *s, size_t i, double want)
{
    const float next = value_at(rig, s->span.next, i);
    const double full = (double)(s->span.master ? s->span.master[i] : next);
    if (!(fabs(full - want) <= 2e-6 * (1 + fabs(want))))
        fail_msg("weight[%zu] is %.9g, should be %.9g", i, full, want);
    must_equal(next, rounded_to(rig->precision, (float)full), "next", i);
}

static void check_adamw(struct cuda_rig *rig, uint64_t trial)
{
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decay = 0.1f,
                                 .is_coupled = trial / 2 % 2, .update = 1 + trial,
                                 .frozen = trial % 3 ? 0 : 1 + trial / 2 };
    const struct some_span s = cut_span(rig, true, true);
    const double coupled = adamw.is_coupled ? (double)adamw.decay : 0, apart = (double)adamw.decay - coupled;
    must_launch(cuda_adamw(&rig->launch, &adamw, &s.span));
    const double beta1 = (double)adamw.beta1, beta2 = (double)adamw.beta2;
    const double keep1 = adamw.frozen > 0 ? 1 : beta1, keep2 = adamw.frozen > 0 ? 1 : beta2;
    const double seen = (double)(adamw.frozen > 0 ? adamw.frozen : adamw.update);
    for (size_t i = 0; i < s.span.count; i++) {
        const double w = weight_before(rig, &s, i), g = (double)s.span.gradients[i] + coupled * w;
        const double m = keep1 * (double)s.first_before[i] + (1 - keep1) * g;
        const double v = keep2 * (double)s.second_before[i] + (1 - keep2) * g * g;
        const double near_m = m / (1 - pow(beta1, (double)adamw.update));
        const double near_v = v / (1 - pow(beta2, seen));
        const double direction = apart * w + near_m / (sqrt(near_v) + (double)adamw.epsilon);
        assert_true(fabs((double)s.span.first[i] - m) <= 1e-6 && fabs((double)s.span.second[i] - v) <= 1e-6);
        must_be_weight(rig, &s, i, w - (double)adamw.rate * direction);
    }
}

static void adam_and_adamw_equal_their_formulas(void **state)
{
    (void)state;
    cuda_rig_try(check_adamw, test_trials(12, 300));
}

static void check_sgd(struct cuda_rig *rig, uint64_t trial)
{
    const struct sgd sgd = { .rate = 0.1f, .momentum = trial % 2 ? 0.9f : 0, .decay = 0.01f,
                             .is_nesterov = trial / 2 % 2 };
    const struct some_span s = cut_span(rig, trial % 2, false);
    must_launch(cuda_sgd(&rig->launch, &sgd, &s.span));
    for (size_t i = 0; i < s.span.count; i++) {
        const double w = weight_before(rig, &s, i);
        const double g = (double)s.span.gradients[i] + (double)sgd.decay * w;
        double m = g;
        if (s.span.first) {
            m += (double)sgd.momentum * (double)s.first_before[i];
            assert_true(fabs((double)s.span.first[i] - m) <= 1e-6);
        }
        must_be_weight(rig, &s, i, w - (double)sgd.rate * (sgd.is_nesterov ? g + (double)sgd.momentum * m : m));
    }
}

static void sgd_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_sgd, test_trials(12, 300));
}

static void check_adagrad(struct cuda_rig *rig, uint64_t trial)
{
    const struct adagrad adagrad = { .rate = 0.1f, .epsilon = 1e-3f, .decay = trial % 2 ? 0.01f : 0 };
    struct some_span s = cut_span(rig, true, false);
    for (size_t i = 0; i < s.span.count; i++)
        s.first_before[i] = s.span.first[i] = fabsf(s.span.first[i]);
    must_launch(cuda_adagrad(&rig->launch, &adagrad, &s.span));
    for (size_t i = 0; i < s.span.count; i++) {
        const double w = weight_before(rig, &s, i), g = (double)s.span.gradients[i] + (double)adagrad.decay * w;
        const double sum = (double)s.first_before[i] + g * g;
        assert_true(fabs((double)s.span.first[i] - sum) <= 1e-6 * (1 + sum));
        must_be_weight(rig, &s, i, w - 0.1 * g / (sqrt(sum) + 1e-3));
    }
}

static void adagrad_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_adagrad, test_trials(12, 300));
}

static double norm_before(const struct cuda_rig *rig, const struct some_span *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->span.count; i++)
        sum += weight_before(rig, s, i) * weight_before(rig, s, i);
    return sqrt(sum);
}

// The rate given, or told in memory as in a recording.
static void check_lars(struct cuda_rig *rig, uint64_t trial)
{
    const float rate = 2;
    const struct lars lars = { .rate = trial % 3 ? rate : 7, .momentum = 0.9f, .decay = 0.01f,
                               .trust = trial / 2 % 2 ? 0.02f : 0, .rate_at = trial % 3 ? NULL : &rate };
    const struct some_span s = cut_span(rig, true, false);
    double gradients = 0;
    for (size_t i = 0; i < s.span.count; i++)
        gradients += (double)s.span.gradients[i] * (double)s.span.gradients[i];
    const double weights = norm_before(rig, &s), trust = (double)lars.trust, decay = (double)lars.decay;
    const double ratio = trust > 0 && weights > 0 && gradients > 0
        ? trust * weights / (sqrt(gradients) + decay * weights) : 1;
    must_launch(cuda_lars(&rig->launch, &lars, &s.span));
    for (size_t i = 0; i < s.span.count; i++) {
        const double w = weight_before(rig, &s, i), g = (double)s.span.gradients[i] + decay * w;
        const double m = (double)lars.momentum * (double)s.first_before[i] + (double)rate * ratio * g;
        assert_true(fabs((double)s.span.first[i] - m) <= 2e-6 * (1 + fabs(m)));
        must_be_weight(rig, &s, i, w - m);
    }
}

static void lars_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_lars, test_trials(12, 300));
}

static void check_lamb(struct cuda_rig *rig, uint64_t trial)
{
    struct lamb lamb = { .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .decay = 0.1f,
                         .trusts = trial / 2 % 2, .update = 1 + trial };
    const struct lamb_factors factors = lamb_factors(&lamb);
    const struct some_span s = cut_span(rig, true, true);
    double *steps = cuda_rig_bytes(rig, s.span.count + 1, sizeof *steps, true), squares = 0;
    for (size_t i = 0; i < s.span.count; i++) {
        const double g = (double)s.span.gradients[i], beta1 = (double)lamb.beta1, beta2 = (double)lamb.beta2;
        const double m = beta1 * (double)s.first_before[i] + (1 - beta1) * g;
        const double v = beta2 * (double)s.second_before[i] + (1 - beta2) * g * g;
        const double near_m = m / (1 - pow(beta1, (double)lamb.update));
        const double near_v = v / (1 - pow(beta2, (double)lamb.update));
        steps[i] = near_m / (sqrt(near_v) + (double)lamb.epsilon) + (double)lamb.decay * weight_before(rig, &s, i);
        squares += steps[i] * steps[i];
    }
    const double weights = norm_before(rig, &s);
    const double ratio = lamb.trusts && weights > 0 && squares > 0 ? weights / sqrt(squares) : 1;
    if (trial % 3 == 0)
        lamb.rate = 7, lamb.update = 1000, lamb.factors_at = &factors;
    must_launch(cuda_lamb(&rig->launch, &lamb, &s.span));
    for (size_t i = 0; i < s.span.count; i++)
        must_be_weight(rig, &s, i, weight_before(rig, &s, i) - (double)factors.rate * ratio * steps[i]);
}

static void lamb_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_lamb, test_trials(12, 300));
}

// Beside the kernels of the CPU, which tests/device/ holds against the formulas. One that rounds a * x + b once leaves
// the same bits: what is updated in the host's memory is updated as by the GPU.
static bool rounds_once(void)
{
    struct device *device = device_open("cpu:avx2", &(struct error){ 0 });
    device_close(device);
    return device != NULL;
}

static struct queue *cpu_queue(enum precision precision, struct device **device)
{
    struct error error = { 0 };
    char name[40];
    snprintf(name, sizeof name, "cpu:%s%s%s", rounds_once() ? "avx2" : "baseline",
             precision == PRECISION_FP32 ? "" : ",", precision == PRECISION_FP32 ? "" : precision_name(precision));
    *device = device_open(name, &error);
    assert_good(*device, error);
    struct queue *queue = queue_create(*device, &error);
    assert_good(queue, error);
    return queue;
}

static void must_all_be_within(double tolerance, const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * (1 + fabs((double)want[i]))))
            fail_msg("%s %zu is %.9g, should be %.9g", what, i, (double)got[i], (double)want[i]);
}

// To the bit, where the processor rounds as a GPU does.
static void must_all_agree(const float *got, const float *want, size_t count, const char *what)
{
    must_all_be_within(rounds_once() ? 0 : 1e-5, got, want, count, what);
}

static void update_both(struct cuda_rig *rig, uint64_t trial, const struct optimizer_span *span, struct queue *queue,
                        const struct optimizer_span *twin)
{
    const bool other = trial / 4 % 2;
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decay = 0.1f,
                                 .is_coupled = other, .update = 1 + trial };
    const struct sgd sgd = { .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f, .is_nesterov = other };
    const struct lars lars = { .rate = 2, .momentum = 0.9f, .decay = 0.01f, .trust = other ? 0 : 0.02f };
    const struct lamb lamb = { .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .decay = 0.1f,
                               .trusts = !other, .update = 1 + trial };
    switch (trial % 4) {
    case 0:
        must_launch(cuda_adamw(&rig->launch, &adamw, span));
        kernel_adamw(queue, &adamw, twin);
        break;
    case 1:
        must_launch(cuda_sgd(&rig->launch, &sgd, span));
        kernel_sgd(queue, &sgd, twin);
        break;
    case 2:
        must_launch(cuda_lars(&rig->launch, &lars, span));
        kernel_lars(queue, &lars, twin);
        break;
    default:
        must_launch(cuda_lamb(&rig->launch, &lamb, span));
        kernel_lamb(queue, &lamb, twin);
    }
}

static void check_processor(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(rig->precision, &device);
    const struct some_span s = cut_span(rig, true, true);
    const struct optimizer_span twin = same_span(rig, &s.span);
    const size_t count = s.span.count;
    update_both(rig, trial, &s.span, queue, &twin);
    assert_memory_equal(s.span.next, twin.next, count * precision_bytes(rig->precision));
    assert_memory_equal(s.span.first, twin.first, count * sizeof(float));
    assert_memory_equal(s.span.second, twin.second, count * sizeof(float));
    if (s.span.master)
        assert_memory_equal(s.span.master, twin.master, count * sizeof(float));
    queue_free(queue);
    device_close(device);
}

static void a_processor_leaves_the_same_bits(void **state)
{
    (void)state;
    if (!rounds_once())
        TEST_SKIP("this processor rounds a * x + b twice");
    cuda_rig_try(check_processor, test_trials(16, 300));
}

static void check_adafactor(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(PRECISION_FP32, &device);
    const bool is_matrix = trial % 3;
    const size_t rows = is_matrix ? 2 + some_size(rig, trial % 3 == 1 ? 1200 : 40) : 1;
    const size_t columns = 2 + some_size(rig, is_matrix ? 40 : 3000), count = rows * columns;
    const size_t row_count = is_matrix ? rows : count;
    float *row = some_sums(rig, row_count, &(float *){ NULL }), *column = some_sums(rig, columns, &(float *){ NULL });
    for (size_t i = 0; i < row_count; i++)
        row[i] = fabsf(row[i]);
    for (size_t i = 0; i < columns; i++)
        column[i] = fabsf(column[i]);
    struct factored_span span = {
        .next = (struct values *)out_floats(rig, count), .rows = rows, .columns = columns,
        .weights = (const struct values *)some_floats(rig, count, 1), .gradients = some_floats(rig, count, 1),
        .row = row, .column = is_matrix ? column : NULL,
    }, twin = span;
    const struct adafactor adafactor = { .rate = 0.01f, .decay = 0.1f, .update = 1 + trial };
    const struct adafactor_factors factors = adafactor_factors(&adafactor);
    const struct adafactor told = { .rate = 7, .update = 1000, .factors_at = &factors };
    twin.next = (struct values *)out_floats(rig, count);
    twin.row = same_floats(rig, row, row_count);
    twin.column = is_matrix ? same_floats(rig, column, columns) : NULL;
    kernel_adafactor(queue, &adafactor, &twin);
    must_launch(cuda_adafactor(&rig->launch, trial % 2 ? &told : &adafactor, &span));
    must_all_agree((const float *)span.next, (const float *)twin.next, count, "weight");
    must_all_agree(span.row, twin.row, row_count, "row");
    must_all_agree(column, is_matrix ? twin.column : column, columns, "column");
    queue_free(queue);
    device_close(device);
}

static void adafactor_equals_that_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_adafactor, test_trials(3, 60));
}

static void check_adam8bit(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(PRECISION_FP32, &device);
    const size_t count = some_size(rig, trial % 2 ? 5000 : 300);
    const size_t blocks = (count + EIGHT_BIT_BLOCK - 1) / EIGHT_BIT_BLOCK, bytes = 2 * count;
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .decay = 0.1f,
                                 .is_coupled = trial / 2 % 2, .update = 1 + trial };
    uint8_t *codes = cuda_rig_bytes(rig, bytes, 1, true), *twins = cuda_rig_bytes(rig, bytes, 1, true);
    float *scales = some_sums(rig, 2 * blocks, &(float *){ NULL });
    for (size_t i = 0; i < 2 * blocks; i++)
        scales[i] = fabsf(scales[i]);
    for (size_t i = 0; i < bytes; i++)
        twins[i] = codes[i] = (uint8_t)random_below(&rig->seed, 256);
    const struct eight_bit_span span = {
        .next = (struct values *)out_floats(rig, count), .weights = (const struct values *)some_floats(rig, count, 1),
        .gradients = some_floats(rig, count, 1), .count = count, .first = codes, .second = codes + count,
        .first_scales = scales, .second_scales = scales + blocks,
    };
    struct eight_bit_span twin = span;
    twin.next = (struct values *)out_floats(rig, count);
    twin.first = twins, twin.second = twins + count;
    twin.first_scales = same_floats(rig, scales, 2 * blocks);
    twin.second_scales = twin.first_scales + blocks;
    kernel_adam8bit(queue, &adamw, &twin);
    must_launch(cuda_adam8bit(&rig->launch, &adamw, &span));
    must_all_agree((const float *)span.next, (const float *)twin.next, count, "weight");
    must_all_agree(span.first_scales, twin.first_scales, 2 * blocks, "scale");
    const int apart = rounds_once() ? 0 : 1;  // what lies between two codes may be rounded to either
    for (size_t i = 0; i < bytes; i++)
        if (abs((int)codes[i] - (int)twins[i]) > apart)
            fail_msg("code %zu of %zu is %u, should be %u", i, bytes, codes[i], twins[i]);
    queue_free(queue);
    device_close(device);
}

static void adam_in_8_bits_equals_that_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_adam8bit, test_trials(2, 60));
}

// What has no part is 0, as it is in runs.
static void check_signs(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(PRECISION_FP32, &device);
    const size_t count = some_size(rig, trial % 2 ? 3000 : 300);
    const size_t words = sign_block_count(count) * (sizeof(struct sign_block) / 4);
    struct sign_block *signs = cuda_rig_bytes(rig, words, 4, true), *twins = cuda_rig_bytes(rig, words, 4, true);
    float *where = some_sums(rig, count, &(float *){ NULL }), *numbers = some_sums(rig, count, &(float *){ NULL });
    for (size_t i = 0; i < count; i++) {
        where[i] = where[i] > -0.5f ? fabsf(where[i]) : 0;
        numbers[i] = where[i] > 0 ? numbers[i] : 0;
    }
    float *left = same_floats(rig, numbers, count), *sums = some_sums(rig, count, &(float *){ NULL });
    float *sums_twin = same_floats(rig, sums, count);
    kernel_take_signs(queue, twins, left, where, count);
    kernel_add_signs(queue, sums_twin, twins, 0.3f, where, count);
    kernel_add_where(queue, sums_twin, left, -0.7f, where, count);
    must_launch(cuda_take_signs(&rig->launch, signs, numbers, where, count));
    must_launch(cuda_add_signs(&rig->launch, sums, signs, 0.3f, where, count));
    must_launch(cuda_add_where(&rig->launch, sums, numbers, -0.7f, where, count));
    must_all_be_within(1e-5, numbers, left, count, "what is left");
    must_all_be_within(1e-5, sums, sums_twin, count, "sum");
    for (size_t b = 0; b < sign_block_count(count); b++)
        assert_memory_equal(signs[b].negative, twins[b].negative, sizeof signs[b].negative);
    queue_free(queue);
    device_close(device);
}

static void signs_are_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_signs, test_trials(4, 60));
}

// The part of a span from number `cut` on, or before it.
static struct optimizer_span part(const struct cuda_rig *rig, struct optimizer_span span, size_t from, size_t end)
{
    span.next = values_at(span.next, rig->precision, from);
    span.weights = values_at(span.weights, rig->precision, from);
    span.master = span.master ? span.master + from : NULL;
    span.gradients += from, span.first += from, span.second += from;
    span.count = end - from;
    return span;
}

static void check_cuts(struct cuda_rig *rig, uint64_t trial)
{
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decay = 0.1f,
                                 .update = 1 + trial };
    const struct some_span s = cut_span(rig, true, true);
    const struct optimizer_span other = same_span(rig, &s.span);
    const size_t count = s.span.count, cut = random_below(&rig->seed, count + 1);
    const struct optimizer_span before = part(rig, other, 0, cut), after = part(rig, other, cut, count);
    must_launch(cuda_adamw(&rig->launch, &adamw, &s.span));
    must_launch(cuda_adamw(&rig->launch, &adamw, &after));
    must_launch(cuda_adamw(&rig->launch, &adamw, &before));
    assert_memory_equal(other.next, s.span.next, count * precision_bytes(rig->precision));
    assert_memory_equal(other.second, s.span.second, count * sizeof(float));
}

static void any_cut_into_spans_gives_the_same_bits(void **state)
{
    (void)state;
    cuda_rig_try(check_cuts, test_trials(12, 300));
}

// In a recording the factors and the rate are told in memory.
static void check_told(struct cuda_rig *rig, uint64_t trial)
{
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decay = 0.1f,
                                 .update = 1 + trial };
    const struct sgd sgd = { .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f };
    struct adamw told_adamw = adamw;
    struct sgd told_sgd = sgd;
    const struct adamw_factors factors = adamw_factors(&adamw);
    told_adamw.rate = told_adamw.decay = 7, told_adamw.update = 1000, told_adamw.factors_at = &factors;
    told_sgd.rate = 7, told_sgd.rate_at = &sgd.rate;
    const struct some_span s = cut_span(rig, true, true);
    const size_t count = s.span.count;
    const struct optimizer_span other = same_span(rig, &s.span);
    for (int i = 0; i < 2; i++) {
        must_launch(i ? cuda_sgd(&rig->launch, &sgd, &s.span) : cuda_adamw(&rig->launch, &adamw, &s.span));
        must_launch(i ? cuda_sgd(&rig->launch, &told_sgd, &other) : cuda_adamw(&rig->launch, &told_adamw, &other));
        assert_memory_equal(other.next, s.span.next, count * precision_bytes(rig->precision));
        assert_memory_equal(other.first, s.span.first, count * sizeof(float));
    }
}

static void what_is_told_in_memory_gives_the_same_bits(void **state)
{
    (void)state;
    cuda_rig_try(check_told, test_trials(12, 300));
}

static void check_squares(struct cuda_rig *rig, uint64_t trial)
{
    const size_t count = trial % 3 ? some_size(rig, 3000) : 5000 + random_below(&rig->seed, 20000);
    const float *in = some_floats(rig, count, 2);
    float *norm = cuda_rig_bytes(rig, 2, sizeof(float), true), *clipped = out_floats(rig, count);
    must_launch(cuda_norm(&rig->launch, norm, in, count));
    double want = 0;
    for (size_t i = 0; i < count; i++)
        want += (double)in[i] * (double)in[i];
    if (!(fabs((double)*norm - sqrt(want)) <= 1e-7 * sqrt(want)))
        fail_msg("the norm of %zu numbers is %.9g, should be %.17g", count, (double)*norm, sqrt(want));
    for (int above = 0; above < 2; above++) {
        const struct clip clip = { .norms = norm, .norm_count = 1, .limit = above ? *norm / 3 : *norm * 2 };
        memcpy(clipped, in, count * sizeof *clipped);
        must_launch(cuda_clip(&rig->launch, &clip, clipped, count));
        for (size_t i = 0; i < count; i++)
            if (clipped[i] != in[i] * clip_factor(&clip))
                fail_msg("number %zu of %zu, %.9g, is clipped to %.9g", i, count, (double)in[i], (double)clipped[i]);
    }
}

static void squares_are_summed_in_double(void **state)
{
    (void)state;
    cuda_rig_try(check_squares, test_trials(12, 200));
}

int main(void)
{
    const struct CMUnitTest cuda_optimizer[] = {
        cmocka_unit_test(adam_and_adamw_equal_their_formulas),
        cmocka_unit_test(sgd_equals_its_formula),
        cmocka_unit_test(adagrad_equals_its_formula),
        cmocka_unit_test(lars_equals_its_formula),
        cmocka_unit_test(lamb_equals_its_formula),
        cmocka_unit_test(a_processor_leaves_the_same_bits),
        cmocka_unit_test(adafactor_equals_that_of_the_cpu),
        cmocka_unit_test(adam_in_8_bits_equals_that_of_the_cpu),
        cmocka_unit_test(signs_are_those_of_the_cpu),
        cmocka_unit_test(any_cut_into_spans_gives_the_same_bits),
        cmocka_unit_test(what_is_told_in_memory_gives_the_same_bits),
        cmocka_unit_test(squares_are_summed_in_double),
    };
    return cmocka_run_group_tests(cuda_optimizer, NULL, NULL);
}
