#include "tests/device/cuda/cuda_rig.h"
#include "tests/device/slow_pattern.h"

// One head of one sequence, in double.
struct head_in_double {
    const struct cuda_rig *rig;
    const struct attention *shape;
    const struct values *qkv;
    size_t batch, head;
};

enum part { QUERY, KEY, VALUE };

static size_t qkv_index(const struct head_in_double *h, enum part part, size_t row, size_t column)
{
    const struct attention *a = h->shape;
    return (((h->batch * a->sequence + row) * 3 + part) * a->heads + h->head) * a->size + column;
}

static size_t out_index(const struct head_in_double *h, size_t row, size_t column)
{
    const struct attention *a = h->shape;
    return ((h->batch * a->sequence + row) * a->heads + h->head) * a->size + column;
}

static double number(const struct head_in_double *h, enum part part, size_t row, size_t column)
{
    return (double)value_at(h->rig, h->qkv, qkv_index(h, part, row, column));
}

// The probabilities of a query's keys; returns the logarithm of the sum.
static double probabilities(const struct head_in_double *h, size_t query, double *p)
{
    double sum = 0;
    for (size_t key = 0; key <= query; key++) {
        double score = 0;
        p[key] = 0;
        if (!slow_sees(&h->shape->pattern, query, key))
            continue;
        for (size_t c = 0; c < h->shape->size; c++)
            score += number(h, QUERY, query, c) * number(h, KEY, key, c);
        p[key] = exp(score / sqrt((double)h->shape->size));
        sum += p[key];
    }
    for (size_t key = 0; key <= query; key++)
        p[key] /= sum;
    return log(sum);
}

static struct attention some_shape(struct cuda_rig *rig, uint64_t trial)
{
    static const size_t sizes[] = { 16, 64, 24, 1, 32, 80, 7, 128, 40, 256, 64, 90 };
    return (struct attention){
        .batch = 1 + random_below(&rig->seed, 2),
        .sequence = trial % 3 ? 1 + random_below(&rig->seed, 70) : 60 + random_below(&rig->seed, 80),
        .heads = 1 + random_below(&rig->seed, 2),
        .size = sizes[trial % (sizeof sizes / sizeof sizes[0])],
    };
}

static void compare_head(const struct head_in_double *h, const struct values *out, const float *log_sums)
{
    const size_t sequence = h->shape->sequence, size = h->shape->size;
    double *p = calloc(sequence, sizeof *p);
    assert_non_null(p);
    for (size_t query = 0; query < sequence; query++) {
        const double log_sum = probabilities(h, query, p);
        const size_t row = (h->batch * h->shape->heads + h->head) * sequence + query;
        assert_true(fabs((double)log_sums[row] - log_sum) <= 1e-5 * (1 + fabs(log_sum)));
        for (size_t c = 0; c < size; c++) {
            double want = 0;
            for (size_t key = 0; key <= query; key++)
                want += p[key] * number(h, VALUE, key, c);
            const size_t i = out_index(h, query, c);
            must_be_near(h->rig, value_at(h->rig, out, i), want, 1e-5, "out", i);
        }
    }
    free(p);
}

static void check_forward_of(struct cuda_rig *rig, uint64_t trial, struct attention a)
{
    const size_t rows = a.batch * a.sequence, width = a.heads * a.size;
    const struct values *qkv = some_values(rig, rows * 3 * width, 1 + (double)(trial % 3));
    struct values *out = out_values(rig, rows * width);
    float *log_sums = out_floats(rig, rows * a.heads);
    must_launch(cuda_attention(&rig->launch, &a, out, log_sums, qkv, NULL));
    for (size_t batch = 0; batch < a.batch; batch++)
        for (size_t head = 0; head < a.heads; head++)
            compare_head(&(struct head_in_double){ rig, &a, qkv, batch, head }, out, log_sums);
}

static void check_forward(struct cuda_rig *rig, uint64_t trial)
{
    check_forward_of(rig, trial, some_shape(rig, trial));
}

static void attention_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_forward, test_trials(12, 120));
}

// --- backward ----------------------------------------------------------------------------

// Adds a query's share to the gradients of q, k and v; `out` is in double, too.
static void add_query(const struct head_in_double *h, const struct values *out_gradient, size_t query, const double *p,
                      double *gradient)
{
    const size_t size = h->shape->size;
    const double factor = 1 / sqrt((double)size);
    double g_out = 0;
    for (size_t key = 0; key <= query; key++)
        for (size_t c = 0; c < size; c++)
            g_out += (double)value_at(h->rig, out_gradient, out_index(h, query, c)) * p[key] * number(h, VALUE, key, c);
    for (size_t key = 0; key <= query; key++) {
        double g_value = 0;
        for (size_t c = 0; c < size; c++)
            g_value += (double)value_at(h->rig, out_gradient, out_index(h, query, c)) * number(h, VALUE, key, c);
        const double slope = p[key] * (g_value - g_out) * factor;
        for (size_t c = 0; c < size; c++) {
            const double g = (double)value_at(h->rig, out_gradient, out_index(h, query, c));
            gradient[qkv_index(h, QUERY, query, c)] += slope * number(h, KEY, key, c);
            gradient[qkv_index(h, KEY, key, c)] += slope * number(h, QUERY, query, c);
            gradient[qkv_index(h, VALUE, key, c)] += p[key] * g;
        }
    }
}

// In bfloat16 the output that the backward is given is rounded, and so its gradient
// is a little off: relative to the largest one.
static void must_be_gradient(const struct cuda_rig *rig, const struct values *got, const double *want, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    const double tolerance = rig->precision != PRECISION_FP32 ? 1e-2 : 1e-5;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)value_at(rig, got, i) - want[i]) <= tolerance * (largest + fabs(want[i]))))
            fail_msg("gradient[%zu] is %.9g, should be %.9g", i, (double)value_at(rig, got, i), want[i]);
}

static void must_be_gradients(const struct cuda_rig *rig, const struct attention *shape, const struct values *qkv,
                              const struct values *out_gradient, const struct values *gradient)
{
    const struct attention a = *shape;
    const size_t count = a.batch * a.sequence * 3 * a.heads * a.size;
    double *want = calloc(count, sizeof *want), *p = calloc(a.sequence, sizeof *p);
    assert_true(want && p);
    for (size_t batch = 0; batch < a.batch; batch++)
        for (size_t head = 0; head < a.heads; head++) {
            const struct head_in_double h = { rig, &a, qkv, batch, head };
            for (size_t query = 0; query < a.sequence; query++) {
                probabilities(&h, query, p);
                add_query(&h, out_gradient, query, p, want);
            }
        }
    must_be_gradient(rig, gradient, want, count);
    free(want);
    free(p);
}

static void check_backward_of(struct cuda_rig *rig, struct attention a)
{
    const size_t rows = a.batch * a.sequence, width = a.heads * a.size, count = rows * 3 * width;
    const struct values *qkv = some_values(rig, count, 1), *out_gradient = some_values(rig, rows * width, 1);
    struct values *out = out_values(rig, rows * width), *gradient = out_values(rig, count);
    float *log_sums = out_floats(rig, rows * a.heads);
    must_launch(cuda_attention(&rig->launch, &a, out, log_sums, qkv, NULL));
    must_launch(cuda_attention_backward(&rig->launch, &a, gradient, out_gradient, out, log_sums, qkv, NULL));
    must_be_gradients(rig, &a, qkv, out_gradient, gradient);
}

static void check_backward(struct cuda_rig *rig, uint64_t trial)
{
    check_backward_of(rig, some_shape(rig, trial));
}

// Of one sequence, whose parts lie one behind the other; of any length.
static void check_parts_of(struct cuda_rig *rig, struct attention a)
{
    a.batch = a.heads = 1;
    const size_t width = a.size, cut = a.sequence / 3, cuts[] = { 0, cut, 2 * cut + 1, a.sequence };
    const struct values *qkv = some_values(rig, 3 * a.sequence * width, 1);
    const struct values *out_gradient = some_values(rig, a.sequence * width, 1);
    struct values *out = out_values(rig, a.sequence * width), *gradient = out_values(rig, 3 * a.sequence * width);
    float *log_sums = out_floats(rig, a.sequence);
    struct attention parts[3];
    struct values *outs[3];
    for (size_t p = 0; p < 3; p++) {
        parts[p] = a;
        parts[p].first = cuts[p], parts[p].sequence = cuts[p + 1] - cuts[p], parts[p].whole = a.sequence;
        outs[p] = values_at(out, rig->precision, cuts[p] * width);
        if (parts[p].sequence > 0)
            must_launch(cuda_attention(&rig->launch, &parts[p], outs[p], log_sums + cuts[p], qkv, NULL));
    }
    for (size_t p = 3; p-- > 0;)
        if (parts[p].sequence > 0)
            must_launch(cuda_attention_backward(&rig->launch, &parts[p], gradient,
                                                values_at(out_gradient, rig->precision, cuts[p] * width), outs[p],
                                                log_sums + cuts[p], qkv, NULL));
    compare_head(&(struct head_in_double){ rig, &a, qkv, 0, 0 }, out, log_sums);
    must_be_gradients(rig, &a, qkv, out_gradient, gradient);
}

static void check_parts(struct cuda_rig *rig, uint64_t trial)
{
    check_parts_of(rig, some_shape(rig, trial));
}

// Several tiles of each size, of which some are skipped, some are seen as a whole, and some in part.
static void check_pattern(struct cuda_rig *rig, uint64_t trial)
{
    struct attention a = some_shape(rig, trial);
    a.batch = 1, a.sequence = 1 + random_below(&rig->seed, a.size > 64 ? 120 : 260);
    a.pattern = slow_pattern(&rig->seed, 1 + a.sequence / 2);
    check_forward_of(rig, trial, a);
    check_backward_of(rig, a);
    check_parts_of(rig, a);
}

static void attention_with_a_pattern_equals_its_formulas(void **state)
{
    (void)state;
    cuda_rig_try(check_pattern, test_trials(12, 120));
}

static void attention_in_parts_equals_its_formulas(void **state)
{
    (void)state;
    cuda_rig_try(check_parts, test_trials(12, 120));
}

static void the_gradients_of_attention_equal_their_formulas(void **state)
{
    (void)state;
    cuda_rig_try(check_backward, test_trials(12, 120));
}

// --- ends -----------------------------------------------------------------------------------

static void check_large_scores(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const struct attention a = { .batch = 1, .sequence = 40, .heads = 1, .size = 16 };
    struct values *qkv = some_values(rig, 40 * 48, 1), *out = out_values(rig, 40 * 16);
    float *log_sums = out_floats(rig, 40);
    for (size_t i = 0; i < 40 * 48; i++)
        if (i % 48 < 32)
            set_value(rig, qkv, i, 1e4f * value_at(rig, qkv, i));
    must_launch(cuda_attention(&rig->launch, &a, out, log_sums, qkv, NULL));
    for (size_t i = 0; i < 40 * 16; i++)
        assert_true(fabs((double)value_at(rig, out, i)) <= 1);
}

static void scores_too_large_for_an_exponential_do_no_harm(void **state)
{
    (void)state;
    cuda_rig_try(check_large_scores, 2);
}

// A NaN in one query's row stays there; in a key's, it goes to the queries that see it.
static void check_nan(struct cuda_rig *rig, uint64_t trial)
{
    const struct attention a = { .batch = 1, .sequence = 70, .heads = 1, .size = 8 };
    const size_t row = 20 + trial;
    struct values *qkv = some_values(rig, 70 * 24, 1), *out = out_values(rig, 70 * 8);
    float *log_sums = out_floats(rig, 70);
    set_value(rig, qkv, row * 24 + 8, NAN);
    must_launch(cuda_attention(&rig->launch, &a, out, log_sums, qkv, NULL));
    for (size_t i = 0; i < 70; i++)
        assert_true(!isnan(value_at(rig, out, i * 8)) == (i < row));
}

static void a_nan_reaches_those_that_see_it_and_no_others(void **state)
{
    (void)state;
    cuda_rig_try(check_nan, 3);
}

static void check_too_large(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const struct attention a = { .batch = 1, .sequence = 4, .heads = 1, .size = 257 };
    assert_int_equal(cuda_attention(&rig->launch, &a, NULL, NULL, NULL, NULL), cudaErrorInvalidValue);
}

static void heads_larger_than_256_are_refused(void **state)
{
    (void)state;
    cuda_rig_try(check_too_large, 1);
}

int main(void)
{
    const struct CMUnitTest cuda_attention[] = {
        cmocka_unit_test(attention_equals_its_formula),
        cmocka_unit_test(the_gradients_of_attention_equal_their_formulas),
        cmocka_unit_test(attention_in_parts_equals_its_formulas),
        cmocka_unit_test(attention_with_a_pattern_equals_its_formulas),
        cmocka_unit_test(scores_too_large_for_an_exponential_do_no_harm),
        cmocka_unit_test(a_nan_reaches_those_that_see_it_and_no_others),
        cmocka_unit_test(heads_larger_than_256_are_refused),
    };
    return cmocka_run_group_tests(cuda_attention, NULL, NULL);
}
