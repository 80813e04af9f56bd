#include <stdlib.h>

#include "tests/device/kernel_rig.h"

struct state {
    struct optimizer_span span;
    float *next, *weights;  // where the span's are
    float *full;            // the weights before, in full
    float *first_before, *second_before;
};

// Of bfloat16 the weights in full are the master copy, and the narrow ones are not looked at.
static struct state make(struct rig *rig, size_t count, bool in_place)
{
    struct state s = { .span = { .count = count } };
    s.weights = rig_numbers(rig, count, 1);
    s.span.gradients = rig_numbers(rig, count, 1);
    s.span.first = rig_sums(rig, count, &s.first_before);
    s.span.second = rig_sums(rig, count, &s.second_before);
    for (size_t i = 0; i < count; i++)
        s.second_before[i] = s.span.second[i] = fabsf(s.span.second[i]);  // a mean of squares
    s.full = rig_numbers(rig, count, 1);
    s.next = rig_output(rig, count);
    if (device_precision(rig->device) != PRECISION_FP32) {
        s.span.master = rig_output(rig, count);
        for (size_t i = 0; i < count; i++)
            s.span.master[i] = s.full[i] += 1e-4f * (float)random_unit(&rig->seed);
    } else {
        memcpy(s.full, s.weights, count * sizeof(float));
    }
    memcpy(s.next, s.weights, count * sizeof(float));
    if (in_place)
        s.weights = s.next;
    s.span.next = rig_values(rig, s.next);
    s.span.weights = rig_values(rig, s.weights);
    return s;
}

// Weight i after an update: in full, and as layers read it.
static void expect_weight(const struct state *s, size_t i, double want, double tolerance)
{
    rig_close_to(s->span.master ? s->span.master[i] : s->next[i], want, tolerance, "weight", i);
    if (s->span.master)
        assert_true(s->next[i] == rig_round(s->span.master[i]));
}

static void check_adamw(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    const struct adamw a = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f,
                             .is_coupled = trial / 2 % 2, .update = 1 + trial,
                             .frozen = trial % 3 ? 0 : 1 + trial / 2 };
    const double keep1 = a.frozen > 0 ? 1 : 0.9, keep2 = a.frozen > 0 ? 1 : 0.95;
    const double seen = (double)(a.frozen > 0 ? a.frozen : a.update);
    kernel_adamw(rig->queue, &a, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)s.full[i], g = (double)s.span.gradients[i] + (a.is_coupled ? 0.1 * w : 0);
        const double m = keep1 * (double)s.first_before[i] + (1 - keep1) * g;
        const double v = keep2 * (double)s.second_before[i] + (1 - keep2) * g * g;
        const double m_hat = m / (1 - pow(0.9, (double)a.update)), v_hat = v / (1 - pow(0.95, seen));
        rig_close_to(s.span.first[i], m, 1e-6, "first moment", i);
        rig_close_to(s.span.second[i], v, 1e-6, "second moment", i);
        expect_weight(&s, i, w - 0.01 * (m_hat / (sqrt(v_hat) + 1e-8) + (a.is_coupled ? 0 : 0.1 * w)), 1e-5);
    }
}

static void adam_and_adamw_equal_their_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_adamw, test_trials(40, 400));
}

// Once without momentum into a place of its own, and once with it.
static void check_sgd(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2), plain = s;
    const struct sgd sgd = { .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f, .is_nesterov = trial / 2 % 2 };
    plain.next = rig_output(rig, count);
    plain.span.next = rig_values(rig, plain.next);
    plain.span.first = NULL;
    if (s.span.master)
        plain.span.master = memcpy(rig_output(rig, count), s.full, count * sizeof(float));
    kernel_sgd(rig->queue, &sgd, &plain.span);
    kernel_sgd(rig->queue, &sgd, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)s.full[i];
        const double g = (double)s.span.gradients[i] + 0.01 * w, m = 0.9 * (double)s.first_before[i] + g;
        expect_weight(&plain, i, w - 0.1 * g, 1e-6);
        rig_close_to(s.span.first[i], m, 1e-6, "momentum", i);
        expect_weight(&s, i, w - 0.1 * (sgd.is_nesterov ? g + 0.9 * m : m), 1e-6);
    }
}

static void sgd_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_sgd, test_trials(40, 400));
}

static void check_adagrad(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    for (size_t i = 0; i < count; i++)
        s.first_before[i] = s.span.first[i] = fabsf(s.span.first[i]);
    const struct adagrad adagrad = { .rate = 0.1f, .epsilon = 1e-3f, .decay = trial / 2 % 2 ? 0.01f : 0 };
    kernel_adagrad(rig->queue, &adagrad, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)s.full[i], g = (double)s.span.gradients[i] + (double)adagrad.decay * w;
        const double sum = (double)s.first_before[i] + g * g;
        rig_close_to(s.span.first[i], sum, 1e-6, "sum", i);
        expect_weight(&s, i, w - 0.1 * g / (sqrt(sum) + 1e-3), 1e-5);
    }
}

static void adagrad_equals_its_formula_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_adagrad, test_trials(40, 400));
}

static double norm_of(const float *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)numbers[i] * (double)numbers[i];
    return sqrt(sum);
}

static void check_lars(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    const struct lars lars = { .rate = 2, .momentum = 0.9f, .decay = 0.01f, .trust = trial / 2 % 2 ? 0.02f : 0 };
    const bool is_still = trial % 7 == 6;
    if (is_still)
        memset((float *)(uintptr_t)s.span.gradients, 0, count * sizeof(float));
    const double weight = norm_of(s.full, count), gradient = norm_of(s.span.gradients, count);
    const double ratio = lars.trust > 0 && !is_still ? 0.02 * weight / (gradient + 0.01 * weight) : 1;
    kernel_lars(rig->queue, &lars, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)s.full[i], g = (double)s.span.gradients[i] + 0.01 * w;
        const double m = 0.9 * (double)s.first_before[i] + 2 * ratio * g;
        rig_close_to(s.span.first[i], m, 1e-5, "momentum", i);
        expect_weight(&s, i, w - m, 1e-5);
    }
}

static void lars_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_lars, test_trials(40, 400));
}

static void check_lamb(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    const struct lamb lamb = { .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-6f, .decay = 0.1f,
                               .trusts = trial / 2 % 2, .update = 1 + trial };
    double weights = norm_of(s.full, count), steps = 0, *step = calloc(count + 1, sizeof *step);
    assert_non_null(step);
    for (size_t i = 0; i < count; i++) {
        const double g = (double)s.span.gradients[i];
        const double m = 0.9 * (double)s.first_before[i] + 0.1 * g;
        const double v = 0.95 * (double)s.second_before[i] + 0.05 * g * g;
        const double near_m = m / (1 - pow(0.9, (double)lamb.update));
        const double near_v = v / (1 - pow(0.95, (double)lamb.update));
        step[i] = near_m / (sqrt(near_v) + 1e-6) + 0.1 * (double)s.full[i];
        steps += step[i] * step[i];
    }
    const double ratio = lamb.trusts && weights > 0 && steps > 0 ? weights / sqrt(steps) : 1;
    kernel_lamb(rig->queue, &lamb, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++)
        expect_weight(&s, i, (double)s.full[i] - 0.1 * ratio * step[i], 3e-5);
    free(step);
}

static void lamb_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_lamb, test_trials(40, 400));
}

// A matrix, or a vector; moments as the second update finds them.
static void check_adafactor(struct rig *rig, uint64_t trial)
{
    if (device_precision(rig->device) != PRECISION_FP32)
        return;
    const size_t rows = trial % 3 ? rig_size(rig, 20) : 1, columns = rig_size(rig, 60), count = rows * columns;
    const bool is_matrix = rows > 1 && columns > 1;
    const size_t row_count = is_matrix ? rows : count;
    const double beta = pow(1 + (double)trial, -0.8), rate = fmin(0.01, pow(1 + (double)trial, -0.5));
    float *row_before, *column_before, *row = rig_sums(rig, row_count, &row_before);
    float *column = rig_sums(rig, columns, &column_before);
    const float *given = rig_numbers(rig, count, trial % 5 ? 1 : 1e-4);
    float *weights = memcpy(rig_output(rig, count), given, count * sizeof *given);
    float *next = trial % 2 ? weights : rig_output(rig, count);
    const float *gradients = rig_numbers(rig, count, trial % 4 ? 1 : 1e-3);
    double *second = calloc(count, sizeof *second), *full = calloc(count, sizeof *full), *sums = calloc(columns, 8);
    assert_true(second && full && sums);
    double mean = 0, weight = 0, step = 0;
    for (size_t i = 0; i < row_count; i++)
        row[i] = row_before[i] = fabsf(row_before[i]);
    for (size_t i = 0; i < columns; i++)
        column[i] = column_before[i] = fabsf(column_before[i]);
    for (size_t i = 0; i < count; i++) {
        full[i] = (double)weights[i];
        weight += full[i] * full[i] / (double)count;
        second[i] = (double)gradients[i] * (double)gradients[i];
    }
    for (size_t r = 0; r < rows && is_matrix; r++) {
        double sum = 0;
        for (size_t c = 0; c < columns; c++) {
            sum += second[r * columns + c] / (double)columns;
            sums[c] += second[r * columns + c] / (double)rows;
        }
        second[r * columns] = (1 - beta) * (double)row_before[r] + beta * sum;
        mean += second[r * columns] / (double)rows;
    }
    for (size_t i = count; i-- > 0;) {
        const double across = (1 - beta) * (double)column_before[i % columns] + beta * sums[i % columns];
        second[i] = is_matrix ? second[i / columns * columns] * across / fmax(mean, 1.1920929e-7)
                              : (1 - beta) * (double)row_before[i] + beta * second[i];
        second[i] = (double)gradients[i] / sqrt(fmax(second[i], 1.4210855e-14));
        step += second[i] * second[i] / (double)count;
    }
    kernel_adafactor(rig->queue, &(struct adafactor){ .rate = 0.01f, .decay = 0.1f, .update = 1 + trial },
                     &(struct factored_span){ .next = rig_values(rig, next), .weights = rig_values(rig, weights),
                                              .gradients = gradients, .rows = is_matrix ? rows : 1,
                                              .columns = is_matrix ? columns : count, .row = row,
                                              .column = is_matrix ? column : NULL });
    rig_settle(rig);
    const double scale = rate * fmax(sqrt(weight), 1e-3) / fmax(sqrt(step), 1);
    for (size_t i = 0; i < count; i++)
        rig_close_to(next[i], (1 - 0.01 * 0.1) * full[i] - scale * second[i], 1e-5, "weight", i);
    for (size_t c = 0; c < columns && is_matrix; c++)
        rig_close_to(column[c], (1 - beta) * (double)column_before[c] + beta * sums[c], 1e-6, "column", c);
    free(second), free(full), free(sums);
}

static void adafactor_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_adafactor, test_trials(40, 400));
}

static unsigned nearest_code(double x, bool is_signed)
{
    unsigned best = 0;
    for (unsigned code = 1; code < 256; code++)
        if (fabs((double)eight_bit_value(code, is_signed) - x) < fabs((double)eight_bit_value(best, is_signed) - x))
            best = code;
    return best;
}

// The code is the nearest there is, or, where two are as near as rounding tells, its neighbour.
static void expect_code(unsigned got, double x, bool is_signed)
{
    const unsigned want = nearest_code(x, is_signed);
    const double to_got = fabs((double)eight_bit_value(got, is_signed) - x);
    const double to_want = fabs((double)eight_bit_value(want, is_signed) - x);
    if (!(to_got <= to_want + 1e-6 * fabs(x)))
        fail_msg("%.9g has the code %u, and %u is nearer", x, got, want);
}

// From moments that codes stand for, over more than a block at times.
static void check_adam8bit(struct rig *rig, uint64_t trial)
{
    if (device_precision(rig->device) != PRECISION_FP32)
        return;
    const size_t count = trial % 4 ? rig_size(rig, 300) : EIGHT_BIT_BLOCK + rig_size(rig, 100);
    const size_t blocks = (count + EIGHT_BIT_BLOCK - 1) / EIGHT_BIT_BLOCK;
    const struct adamw a = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-6f, .decay = 0.1f,
                             .update = 1 + trial };
    float *weights = rig_numbers(rig, count, 1), *next = rig_output(rig, count), *scales = rig_output(rig, 2 * blocks);
    const float *gradients = rig_numbers(rig, count, 1);
    uint8_t *codes = memset(rig_output(rig, (2 * count + 3) / 4), 0, (2 * count + 3) / 4 * 4), *second = codes + count;
    double *m = calloc(count, sizeof *m), *v = calloc(count, sizeof *v), most[4] = { 0 };
    assert_true(m && v);
    for (size_t b = 0; b < 2 * blocks; b++)
        scales[b] = trial % 5 ? (float)random_unit(&rig->seed) : 0;
    for (size_t i = 0; i < count; i++) {
        const size_t block = i / EIGHT_BIT_BLOCK;
        codes[i] = (uint8_t)random_below(&rig->seed, 256);
        second[i] = (uint8_t)random_below(&rig->seed, 256);
        const double g = (double)gradients[i];
        m[i] = 0.9 * (double)(eight_bit_value(codes[i], true) * scales[block]) + 0.1 * g;
        v[i] = 0.95 * (double)(eight_bit_value(second[i], false) * scales[blocks + block]) + 0.05 * g * g;
        most[block] = fmax(most[block], fabs(m[i]));
        most[blocks + block] = fmax(most[blocks + block], v[i]);
    }
    kernel_adam8bit(rig->queue, &a, &(struct eight_bit_span){
        .next = rig_values(rig, next), .weights = rig_values(rig, weights), .gradients = gradients, .count = count,
        .first = codes, .second = second, .first_scales = scales, .second_scales = scales + blocks });
    rig_settle(rig);
    for (size_t b = 0; b < 2 * blocks; b++)
        rig_close_to(scales[b], most[b], 1e-6, "scale", b);
    for (size_t i = 0; i < count; i++) {
        const size_t block = i / EIGHT_BIT_BLOCK;
        const double w = (double)weights[i], near_m = m[i] / (1 - pow(0.9, (double)a.update));
        const double near_v = v[i] / (1 - pow(0.95, (double)a.update));
        rig_close_to(next[i], w - 0.01 * (near_m / (sqrt(near_v) + 1e-6) + 0.1 * w), 1e-5, "weight", i);
        expect_code(codes[i], m[i] / most[block], true);
        expect_code(second[i], v[i] / most[blocks + block], false);
    }
    free(m), free(v);
}

static void adam_in_8_bits_equals_its_formulas(void **state)
{
    (void)state;
    rig_try_everywhere(check_adam8bit, test_trials(20, 400));
}

// Numbers, some of which do not count.
struct signed_numbers {
    size_t count, blocks;
    float *numbers, *where;
    struct sign_block *signs;
};

static struct signed_numbers some_signed(struct rig *rig, uint64_t trial)
{
    struct signed_numbers s = { .count = trial % 3 ? rig_size(rig, 300) : SIGN_BLOCK + rig_size(rig, 1200) };
    s.blocks = sign_block_count(s.count);
    s.numbers = rig_numbers(rig, s.count, 1);
    s.where = rig_numbers(rig, s.count, 1);
    s.signs = (struct sign_block *)rig_output(rig, s.blocks * sizeof *s.signs / sizeof(float));
    for (size_t i = 0; i < s.count; i++) {
        s.where[i] = trial % 5 && random_below(&rig->seed, 4) > 0 ? fabsf(s.where[i]) : 0;
        s.numbers[i] = s.where[i] > 0 ? s.numbers[i] : 0;
    }
    return s;
}

static bool is_negative(const struct sign_block *signs, size_t i)
{
    return signs[i / SIGN_BLOCK].negative[i % SIGN_BLOCK / 32] & 1u << i % 32;
}

static double mean_size(const struct signed_numbers *s, const float *numbers, size_t block)
{
    double sum = 0, have = 0;
    for (size_t i = block * SIGN_BLOCK; i < s->count && i < (block + 1) * SIGN_BLOCK; i++) {
        sum += s->where[i] > 0 ? fabs((double)numbers[i]) : 0;
        have += s->where[i] > 0;
    }
    return have > 0 ? sum / have : 0;
}

static void check_signs(struct rig *rig, uint64_t trial)
{
    if (device_precision(rig->device) != PRECISION_FP32)
        return;
    const struct signed_numbers s = some_signed(rig, trial);
    float *before = rig_output(rig, s.count), *sums = rig_numbers(rig, s.count, 1);
    float *sums_before = rig_output(rig, s.count);
    memcpy(before, s.numbers, s.count * sizeof *before);
    memcpy(sums_before, sums, s.count * sizeof *sums);
    kernel_take_signs(rig->queue, s.signs, s.numbers, s.where, s.count);
    kernel_add_signs(rig->queue, sums, s.signs, 0.25f, s.where, s.count);
    rig_settle(rig);
    for (size_t b = 0; b < s.blocks; b++)
        rig_close_to(s.signs[b].size, mean_size(&s, before, b), 1e-6, "size", b);
    for (size_t i = 0; i < s.count; i++) {
        const double size = s.where[i] > 0 ? (double)s.signs[i / SIGN_BLOCK].size : 0;
        const double said = is_negative(s.signs, i) ? -size : size;
        assert_true(is_negative(s.signs, i) == (before[i] < 0));
        rig_close_to(s.numbers[i], (double)before[i] - said, 1e-6, "what is left", i);
        rig_close_to(sums[i], (double)sums_before[i] + 0.25 * said, 1e-6, "sum", i);
        assert_true(s.where[i] > 0 || (s.numbers[i] == 0 && sums[i] == sums_before[i]));
    }
    for (size_t i = s.count; i < s.blocks * SIGN_BLOCK; i++)
        assert_false(is_negative(s.signs, i));
}

static void signs_and_what_they_leave_are_the_numbers(void **state)
{
    (void)state;
    rig_try_everywhere(check_signs, test_trials(40, 400));
}

static void check_add_where(struct rig *rig, uint64_t trial)
{
    if (device_precision(rig->device) != PRECISION_FP32)
        return;
    const struct signed_numbers s = some_signed(rig, trial);
    float *sums = rig_numbers(rig, s.count, 1), *before = rig_output(rig, s.count);
    memset(s.signs, 0, s.blocks * sizeof *s.signs);
    memcpy(before, sums, s.count * sizeof *sums);
    kernel_add_where(rig->queue, sums, s.numbers, -0.3f, s.where, s.count);
    rig_settle(rig);
    for (size_t i = 0; i < s.count; i++)
        rig_close_to(sums[i], (double)before[i] - (s.where[i] > 0 ? 0.3 * (double)s.numbers[i] : 0), 1e-6, "sum", i);
}

static void what_does_not_count_is_not_added_to(void **state)
{
    (void)state;
    rig_try_everywhere(check_add_where, test_trials(20, 400));
}

// As bitsandbytes' create_dynamic_map() has them: decades of 1, 2, .. 64 means, both ways; 2, 4, .. 128 of one sign.
static void codes_ascend_through_seven_decades(void **state)
{
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        unsigned code = is_signed ? 128 : 1;
        for (int decade = 0; decade < 7; decade++) {
            const unsigned steps = (is_signed ? 1u : 2u) << decade;
            for (unsigned k = 0; k < steps; k++, code++) {
                const double mean = pow(10, decade - 6) * (0.1 + 0.9 * (k + 0.5) / steps);
                assert_true(fabs((double)eight_bit_value(code, is_signed) - mean) < 1e-6 * mean);
                assert_true(!is_signed || eight_bit_value(254 - code, true) == -eight_bit_value(code, true));
            }
        }
        assert_int_equal(code, 255);
        assert_true(eight_bit_value(255, is_signed) == 1 && eight_bit_value(is_signed ? 127 : 0, is_signed) == 0);
        for (unsigned next = 1; next < 256; next++)
            assert_true(eight_bit_value(next - 1, is_signed) < eight_bit_value(next, is_signed));
    }
}

static float *copy_of(struct rig *rig, const float *numbers, size_t count)
{
    return numbers ? memcpy(rig_output(rig, count), numbers, count * sizeof(float)) : NULL;
}

// The part of a state from element `from` on.
static struct optimizer_span part_of(struct rig *rig, const struct state *s, size_t from, size_t count)
{
    return (struct optimizer_span){
        .next = rig_values(rig, s->next + from), .weights = rig_values(rig, s->weights + from),
        .master = s->span.master ? s->span.master + from : NULL, .gradients = s->span.gradients + from,
        .first = s->span.first + from, .second = s->span.second + from, .count = count,
    };
}

// A stage updates its weights span by span; whoever cuts elsewhere must get the same.
static void check_cuts(struct rig *rig, uint64_t trial)
{
    const size_t count = 20 + rig_size(rig, 100), cut = 1 + trial % 19;
    struct state s = make(rig, count, false), whole = s;
    const struct adamw a = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .update = 3 };
    whole.next = rig_output(rig, count);
    whole.span.next = rig_values(rig, whole.next);
    whole.span.first = copy_of(rig, s.span.first, count);
    whole.span.second = copy_of(rig, s.span.second, count);
    whole.span.master = copy_of(rig, s.span.master, count);
    kernel_adamw(rig->queue, &a, &whole.span);
    const struct optimizer_span one = part_of(rig, &s, 0, cut), two = part_of(rig, &s, cut, count - cut);
    kernel_adamw(rig->queue, &a, &one);
    kernel_adamw(rig->queue, &a, &two);
    rig_settle(rig);
    assert_memory_equal(s.next, whole.next, count * sizeof(float));
    assert_memory_equal(s.span.first, whole.span.first, count * sizeof(float));
    assert_memory_equal(s.span.second, whole.span.second, count * sizeof(float));
    if (s.span.master)
        assert_memory_equal(s.span.master, whole.span.master, count * sizeof(float));
}

static void any_cut_into_spans_gives_the_same_bits(void **state)
{
    (void)state;
    rig_try_everywhere(check_cuts, test_trials(40, 400));
}

static void check_squares(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t count = rig_size(rig, 1000);
    float *in = rig_numbers(rig, count, 1);
    in[0] = 3e30f;  // its square is past float
    float *norm = rig_output(rig, 1);
    kernel_norm(rig->queue, norm, in, count);
    double want = 0;
    for (size_t i = 0; i < count; i++)
        want += (double)in[i] * (double)in[i];
    rig_settle(rig);
    assert_true(fabs((double)*norm - sqrt(want)) <= 1e-7 * sqrt(want));
}

static void squares_are_summed_in_double(void **state)
{
    (void)state;
    rig_try_everywhere(check_squares, test_trials(40, 400));
}

// Of a few norms, by their formula; and a NaN among them is not clipped away.
static void check_clip(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 1000), norm_count = 1 + trial % 5;
    float *gradients = rig_numbers(rig, count, 1), *before = rig_numbers(rig, count, 1);
    float *norms = rig_numbers(rig, norm_count, 1);
    memcpy(before, gradients, count * sizeof *before);
    const double norm = clip_norm(norms, norm_count);
    const float limit = (float)norm * (trial % 2 ? 0.25f : 1.5f);
    kernel_clip(rig->queue, &(struct clip){ norms, norm_count, limit }, gradients, count);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const float want = (double)limit < norm ? before[i] * (float)((double)limit / norm) : before[i];
        assert_memory_equal(&gradients[i], &want, sizeof want);
    }
    norms[0] = NAN;
    kernel_clip(rig->queue, &(struct clip){ norms, norm_count, limit }, gradients, count);
    rig_settle(rig);
    assert_true(isnan(gradients[0]));
}

static void gradients_are_clipped_by_a_global_norm(void **state)
{
    (void)state;
    rig_try_everywhere(check_clip, test_trials(40, 400));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_and_adamw_equal_their_formulas_in_place_and_not),
        cmocka_unit_test(sgd_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(adagrad_equals_its_formula_in_place_and_not),
        cmocka_unit_test(lars_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(lamb_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(adafactor_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(adam_in_8_bits_equals_its_formulas),
        cmocka_unit_test(signs_and_what_they_leave_are_the_numbers),
        cmocka_unit_test(what_does_not_count_is_not_added_to),
        cmocka_unit_test(codes_ascend_through_seven_decades),
        cmocka_unit_test(any_cut_into_spans_gives_the_same_bits),
        cmocka_unit_test(squares_are_summed_in_double),
        cmocka_unit_test(gradients_are_clipped_by_a_global_norm),
    };
    return cmocka_run_group_tests_name("optimizer_kernels", tests, NULL, NULL);
}
