#include "tests/device/kernel_rig.h"

struct state {
    struct optimizer_span span;
    float *next, *weights;
    float *first_before, *second_before, *second;
};

static struct state make(struct rig *rig, size_t count, bool in_place)
{
    struct state s = { .span = { .count = count } };
    float *weights = rig_numbers(rig, count, 1);
    s.span.gradients = rig_numbers(rig, count, 1);
    s.span.first = rig_sums(rig, count, &s.first_before);
    s.span.second = rig_sums(rig, count, &s.second_before);
    for (size_t i = 0; i < count; i++)
        s.second_before[i] = s.span.second[i] = fabsf(s.span.second[i]);  // a mean of squares
    float *next = rig_output(rig, count);
    memcpy(next, weights, count * sizeof(float));
    s.next = next;
    s.weights = in_place ? next : weights;
    s.span.next = rig_values(s.next);
    s.span.weights = rig_values(s.weights);
    return s;
}

static void check_adamw(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    float *weights = rig_numbers(rig, count, 1);
    memcpy(weights, s.weights, count * sizeof(float));
    const struct adamw a = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f,
                             .update = 1 + trial };
    kernel_adamw(rig->queue, &a, &s.span);
    for (size_t i = 0; i < count; i++) {
        const double g = (double)s.span.gradients[i];
        const double m = 0.9 * (double)s.first_before[i] + 0.1 * g;
        const double v = 0.95 * (double)s.second_before[i] + 0.05 * g * g;
        const double m_hat = m / (1 - pow(0.9, (double)a.update)), v_hat = v / (1 - pow(0.95, (double)a.update));
        const double w = (double)weights[i];
        rig_close_to(s.span.first[i], m, 1e-6, "first moment", i);
        rig_close_to(s.span.second[i], v, 1e-6, "second moment", i);
        rig_close_to(s.next[i], w - 0.01 * (m_hat / (sqrt(v_hat) + 1e-8) + 0.1 * w), 1e-5, "weight", i);
    }
}

static void adamw_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_adamw, test_trials(40, 400));
}

static void check_sgd(struct rig *rig, uint64_t trial)
{
    const size_t count = rig_size(rig, 200);
    struct state s = make(rig, count, trial % 2);
    float *weights = rig_numbers(rig, count, 1);
    memcpy(weights, s.weights, count * sizeof(float));
    const struct sgd sgd = { .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f };
    struct optimizer_span plain = s.span;
    float *plain_next = rig_output(rig, count);
    plain.next = rig_values(plain_next);
    plain.first = NULL;  // without momentum
    kernel_sgd(rig->queue, &sgd, &plain);
    kernel_sgd(rig->queue, &sgd, &s.span);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)weights[i];
        rig_close_to(plain_next[i], w - 0.1 * ((double)s.span.gradients[i] + 0.01 * w), 1e-6, "plain weight", i);
        const double m = 0.9 * (double)s.first_before[i] + (double)s.span.gradients[i] + 0.01 * w;
        rig_close_to(s.span.first[i], m, 1e-6, "momentum", i);
        rig_close_to(s.next[i], w - 0.1 * m, 1e-6, "weight", i);
    }
}

static void sgd_equals_its_formulas_in_place_and_not(void **state)
{
    (void)state;
    rig_try_everywhere(check_sgd, test_trials(40, 400));
}

// A stage updates its weights span by span; whoever cuts elsewhere must get the same.
static void check_cuts(struct rig *rig, uint64_t trial)
{
    const size_t count = 20 + rig_size(rig, 100), cut = 1 + trial % 19;
    struct state s = make(rig, count, false);
    float *whole = rig_output(rig, count), *first = rig_output(rig, count), *second = rig_output(rig, count);
    memcpy(first, s.span.first, count * sizeof(float));
    memcpy(second, s.span.second, count * sizeof(float));
    const struct adamw a = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .update = 3 };
    struct optimizer_span span = s.span;
    span.next = rig_values(whole), span.first = first, span.second = second;
    kernel_adamw(rig->queue, &a, &span);
    span = s.span;
    span.count = cut;
    kernel_adamw(rig->queue, &a, &span);
    span = (struct optimizer_span){ .next = rig_values(s.next + cut), .weights = rig_values(s.weights + cut),
                                    .gradients = s.span.gradients + cut, .first = s.span.first + cut,
                                    .second = s.span.second + cut, .count = count - cut };
    kernel_adamw(rig->queue, &a, &span);
    assert_memory_equal(s.next, whole, count * sizeof(float));
    assert_memory_equal(s.span.first, first, count * sizeof(float));
    assert_memory_equal(s.span.second, second, count * sizeof(float));
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
    double *sum = (double *)(void *)rig_output(rig, 2);
    kernel_sum_of_squares(rig->queue, sum, in, count);
    double want = 0;
    for (size_t i = 0; i < count; i++)
        want += (double)in[i] * (double)in[i];
    assert_true(fabs(*sum - want) <= 1e-14 * want);
}

static void squares_are_summed_in_double(void **state)
{
    (void)state;
    rig_try_everywhere(check_squares, test_trials(40, 400));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(sgd_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(any_cut_into_spans_gives_the_same_bits),
        cmocka_unit_test(squares_are_summed_in_double),
    };
    return cmocka_run_group_tests_name("optimizer_kernels", tests, NULL, NULL);
}
