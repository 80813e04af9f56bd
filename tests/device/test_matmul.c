#include "tests/device/kernel_rig.h"

// A product, and the floats that stand behind it.
struct made {
    struct matmul x;
    const float *a, *b, *bias;
    float *c, *before_gelu;
};

// One element, the obvious way, before its ends.
static double product(const struct made *made, size_t row, size_t column)
{
    const struct matmul *x = &made->x;
    double sum = 0;
    for (size_t l = 0; l < x->k; l++) {
        const float a = x->transpose_a ? made->a[l * x->lda + row] : made->a[row * x->lda + l];
        const float b = x->transpose_b ? made->b[column * x->ldb + l] : made->b[l * x->ldb + column];
        sum += (double)a * (double)b;
    }
    return sum;
}

// Rows of half of the trials have a gap after them.
static size_t gap_of(uint64_t trial)
{
    return trial / 4 % 2 ? 1 + trial % 3 : 0;
}

// Makes a product of any size, whose rows are `gap` further apart than they are long. Every sixth is larger than a tile
// of any processor.
static struct made make(struct rig *rig, uint64_t trial, size_t gap)
{
    struct made made = { .x = { .transpose_a = trial & 1, .transpose_b = trial & 2 } };
    struct matmul *x = &made.x;
    const size_t most = random_below(&rig->seed, 6) ? 1 : 4;
    x->m = rig_size(rig, 40 * most), x->n = rig_size(rig, 70 * most), x->k = rig_size(rig, 50 * most);
    x->lda = (x->transpose_a ? x->m : x->k) + gap;
    x->ldb = (x->transpose_b ? x->k : x->n) + gap;
    x->ldc = x->n + gap;
    made.a = rig_numbers(rig, (x->transpose_a ? x->k : x->m) * x->lda, 1);
    made.b = rig_numbers(rig, (x->transpose_b ? x->n : x->k) * x->ldb, 1);
    x->a = rig_values(rig, made.a), x->b = rig_values(rig, made.b);
    return made;
}

static void multiply(struct rig *rig, const struct made *made, size_t gap)
{
    struct matmul asked = made->x;
    if (gap == 0)
        asked.lda = asked.ldb = asked.ldc = 0;
    kernel_matmul(rig->queue, &asked);
    rig_settle(rig);
}

// What lies between the rows of an output, and is nobody's.
static void fill_gaps(const struct made *made, float *out)
{
    for (size_t i = 0; i < made->x.m * made->x.ldc; i++)
        if (i % made->x.ldc >= made->x.n)
            out[i] = 77;
}

static double gelu_of(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void check_matmul(struct rig *rig, uint64_t trial)
{
    const size_t gap = gap_of(trial);
    struct made made = make(rig, trial, gap);
    const struct matmul *x = &made.x;
    const size_t count = x->m * x->ldc;
    made.c = rig_output(rig, count);
    made.bias = trial % 3 ? rig_numbers(rig, x->n, 1) : NULL;
    made.before_gelu = trial % 5 > 2 ? rig_output(rig, count) : NULL;
    fill_gaps(&made, made.c);
    if (made.before_gelu)
        fill_gaps(&made, made.before_gelu);
    made.x.c = rig_values(rig, made.c), made.x.bias = rig_values(rig, made.bias);
    made.x.before_gelu = rig_values(rig, made.before_gelu);
    multiply(rig, &made, gap);
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / x->ldc, column = i % x->ldc;
        if (column >= x->n) {
            assert_true(made.c[i] == 77 && (!made.before_gelu || made.before_gelu[i] == 77));
            continue;
        }
        const double want = product(&made, row, column) + (made.bias ? (double)made.bias[column] : 0);
        if (made.before_gelu)
            rig_value_close_to(made.before_gelu[i], want, 1e-5, "before_gelu", i);
        rig_value_close_to(made.c[i], made.before_gelu ? gelu_of(want) : want, 1e-5, "c", i);
    }
}

static void check_sums(struct rig *rig, uint64_t trial)
{
    const size_t gap = gap_of(trial);
    struct made made = make(rig, trial, gap);
    const struct matmul *x = &made.x;
    float *before, *sums = rig_sums(rig, x->m * x->ldc, &before);
    made.x.sums = sums;
    multiply(rig, &made, gap);
    for (size_t i = 0; i < x->m * x->ldc; i++) {
        const size_t row = i / x->ldc, column = i % x->ldc;
        if (column >= x->n)
            assert_true(sums[i] == before[i]);
        else
            rig_close_to(sums[i], (double)before[i] + product(&made, row, column), 1e-5, "sums", i);
    }
}

static void every_transposition_and_end_equals_the_plain_sum(void **state)
{
    (void)state;
    rig_try_everywhere(check_matmul, test_trials(120, 2000));
}

static void a_gradients_product_is_added_to_what_is_there(void **state)
{
    (void)state;
    rig_try_everywhere(check_sums, test_trials(60, 1000));
}

static void check_callers_threads(struct rig *rig, uint64_t trial)
{
    extern int omp_get_max_threads(void);
    extern void omp_set_num_threads(int threads);
    (void)trial;
    const float *a = rig_numbers(rig, 4, 1);
    omp_set_num_threads(2);
    kernel_matmul(rig->queue, &(struct matmul){
        .m = 2, .n = 2, .k = 2, .a = rig_values(rig, a), .b = rig_values(rig, a),
        .c = rig_values(rig, rig_output(rig, 4)),
    });
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
        cmocka_unit_test(every_transposition_and_end_equals_the_plain_sum),
        cmocka_unit_test(a_gradients_product_is_added_to_what_is_there),
        cmocka_unit_test(the_callers_number_of_threads_is_left_alone),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
