#include "tests/device/kernel_rig.h"

// One element, the obvious way.
static double product(const struct matmul *x, size_t row, size_t column)
{
    double sum = 0;
    for (size_t l = 0; l < x->k; l++) {
        const float a = x->transpose_a ? x->a[l * x->lda + row] : x->a[row * x->lda + l];
        const float b = x->transpose_b ? x->b[column * x->ldb + l] : x->b[l * x->ldb + column];
        sum += (double)a * (double)b;
    }
    return (double)x->alpha * sum;
}

static void check_matmul(struct rig *rig, uint64_t trial)
{
    struct matmul x = { .transpose_a = trial & 1, .transpose_b = trial & 2, .alpha = trial % 3 ? 1 : -0.5f };
    x.m = rig_size(rig, 40), x.n = rig_size(rig, 70), x.k = rig_size(rig, 50);
    x.beta = trial % 5 == 0 ? 0.25f : trial % 2;
    const size_t gap = trial % 4;  // rows further apart than they are long
    x.lda = (x.transpose_a ? x.m : x.k) + gap;
    x.ldb = (x.transpose_b ? x.k : x.n) + gap;
    x.ldc = x.n + gap;
    x.a = rig_numbers(rig, (x.transpose_a ? x.k : x.m) * x.lda, 1);
    x.b = rig_numbers(rig, (x.transpose_b ? x.n : x.k) * x.ldb, 1);
    float *before = rig_numbers(rig, x.m * x.ldc, 1);
    x.c = rig_output(rig, x.m * x.ldc);
    for (size_t i = 0; i < x.m * x.ldc; i++)
        if (x.beta != 0 || i % x.ldc >= x.n)
            x.c[i] = before[i];

    struct matmul asked = x;
    if (gap == 0)
        asked.lda = asked.ldb = asked.ldc = 0;
    kernel_matmul(rig->queue, &asked);

    for (size_t i = 0; i < x.m * x.ldc; i++) {
        const size_t row = i / x.ldc, column = i % x.ldc;
        if (column >= x.n)
            assert_true(x.c[i] == before[i]);
        else
            rig_close_to(x.c[i], product(&x, row, column) + (double)x.beta * (double)before[i], 1e-5, "c", i);
    }
}

static void every_transposition_equals_the_plain_sum(void **state)
{
    (void)state;
    rig_try("cpu", check_matmul, test_trials(120, 2000));
}

static void check_callers_threads(struct rig *rig, uint64_t trial)
{
    extern int omp_get_max_threads(void);
    extern void omp_set_num_threads(int threads);
    (void)trial;
    const float *a = rig_numbers(rig, 4, 1);
    omp_set_num_threads(2);
    kernel_matmul(rig->queue, &(struct matmul){ .m = 2, .n = 2, .k = 2, .alpha = 1, .a = a, .b = a,
                                                .c = rig_output(rig, 4) });
    assert_int_equal(omp_get_max_threads(), 2);
}

static void the_callers_number_of_threads_is_left_alone(void **state)
{
    (void)state;
    rig_try("cpu", check_callers_threads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transposition_equals_the_plain_sum),
        cmocka_unit_test(the_callers_number_of_threads_is_left_alone),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
