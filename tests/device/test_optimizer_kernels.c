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
    if (device_precision(rig->device) == PRECISION_BF16) {
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
                             .is_coupled = trial / 2 % 2, .update = 1 + trial };
    kernel_adamw(rig->queue, &a, &s.span);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double w = (double)s.full[i], g = (double)s.span.gradients[i] + (a.is_coupled ? 0.1 * w : 0);
        const double m = 0.9 * (double)s.first_before[i] + 0.1 * g;
        const double v = 0.95 * (double)s.second_before[i] + 0.05 * g * g;
        const double m_hat = m / (1 - pow(0.9, (double)a.update)), v_hat = v / (1 - pow(0.95, (double)a.update));
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
        const double m = 0.9 * (double)s.first_before[i] + 0.1 * g, v = 0.95 * (double)s.second_before[i] + 0.05 * g * g;
        const double near_m = m / (1 - pow(0.9, (double)lamb.update)), near_v = v / (1 - pow(0.95, (double)lamb.update));
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
        cmocka_unit_test(lars_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(lamb_equals_its_formulas_in_place_and_not),
        cmocka_unit_test(any_cut_into_spans_gives_the_same_bits),
        cmocka_unit_test(squares_are_summed_in_double),
        cmocka_unit_test(gradients_are_clipped_by_a_global_norm),
    };
    return cmocka_run_group_tests_name("optimizer_kernels", tests, NULL, NULL);
}
