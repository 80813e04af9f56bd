#include "device/column_major.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

// How a library that stores columns reads what it is given: element (i, j) of a matrix as it lies.
static double lying(const float *numbers, const struct column_matrix *matrix, uint64_t i, uint64_t j)
{
    assert_true(i < matrix->rows && j < matrix->columns);
    return numbers[j * (uint64_t)matrix->leading + i];
}

static double taken(const float *numbers, const struct column_matrix *matrix, bool transpose, uint64_t i, uint64_t j)
{
    return transpose ? lying(numbers, matrix, j, i) : lying(numbers, matrix, i, j);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

// The library, slowly: first times second, a bias per row, then the GELU, all in its own words.
static void multiply_columns(const struct column_major *p, const float *first, const float *second, const float *bias,
                             float *kept, float *result)
{
    const uint64_t inner = p->transpose_first ? p->first.rows : p->first.columns;
    assert_int_equal(inner, p->transpose_second ? p->second.columns : p->second.rows);
    assert_int_equal(p->result.rows, p->transpose_first ? p->first.columns : p->first.rows);
    assert_int_equal(p->result.columns, p->transpose_second ? p->second.rows : p->second.columns);
    assert_true(p->first.leading >= (int64_t)p->first.rows && p->second.leading >= (int64_t)p->second.rows);
    assert_true(p->result.leading >= (int64_t)p->result.rows);
    for (uint64_t j = 0; j < p->result.columns; j++)
        for (uint64_t i = 0; i < p->result.rows; i++) {
            const uint64_t at = j * (uint64_t)p->result.leading + i;
            double sum = p->adds ? result[at] : 0;
            for (uint64_t l = 0; l < inner; l++)
                sum += taken(first, &p->first, p->transpose_first, i, l)
                    * taken(second, &p->second, p->transpose_second, l, j);
            sum += p->has_bias ? bias[i] : 0;
            if (p->has_gelu)
                kept[at] = (float)sum;
            result[at] = (float)(p->has_gelu ? gelu(sum) : sum);
        }
}

// What kernels.h says, slowly, on rows.
static void multiply_rows(const struct matmul *x, const float *a, const float *b, const float *bias, float *kept,
                          float *result)
{
    for (size_t i = 0; i < x->m; i++)
        for (size_t j = 0; j < x->n; j++) {
            double sum = x->sums ? result[i * x->ldc + j] : 0;
            for (size_t l = 0; l < x->k; l++)
                sum += (double)(x->transpose_a ? a[l * x->lda + i] : a[i * x->lda + l])
                    * (x->transpose_b ? b[j * x->ldb + l] : b[l * x->ldb + j]);
            sum += bias ? bias[j] : 0;
            if (x->before_gelu)
                kept[i * x->ldc + j] = (float)sum;
            result[i * x->ldc + j] = (float)(x->before_gelu ? gelu(sum) : sum);
        }
}

enum { MOST = 12, ROOM = MOST * 2 * MOST };  // numbers of a matrix, with gaps between its rows

static size_t leading(size_t columns, uint64_t *seed)
{
    return columns + random_below(seed, 2) * random_below(seed, MOST);
}

static void fill(float *numbers, uint64_t *seed)
{
    for (size_t i = 0; i < ROOM; i++)
        numbers[i] = (float)random_below(seed, 2001) / 1000 - 1;
}

static void a_product_of_columns_is_the_product_of_rows(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (uint64_t trial = 0; trial < test_trials(3000, 30000); trial++) {
        float a[ROOM], b[ROOM], bias[ROOM], before[ROOM], expected[ROOM], kept[ROOM], expected_kept[ROOM], got[ROOM];
        fill(a, &seed), fill(b, &seed), fill(bias, &seed), fill(before, &seed);
        memcpy(expected, before, sizeof before), memcpy(got, before, sizeof before);
        memcpy(kept, before, sizeof before), memcpy(expected_kept, before, sizeof before);
        struct matmul x = {
            .transpose_a = random_below(&seed, 2), .transpose_b = random_below(&seed, 2),
            .m = 1 + random_below(&seed, MOST), .n = 1 + random_below(&seed, MOST), .k = 1 + random_below(&seed, MOST),
            .a = (const struct values *)a, .b = (const struct values *)b,
        };
        x.lda = leading(x.transpose_a ? x.m : x.k, &seed);
        x.ldb = leading(x.transpose_b ? x.k : x.n, &seed);
        x.ldc = leading(x.n, &seed);
        if (random_below(&seed, 3) == 0)
            x.sums = got;
        else
            x.c = (struct values *)got;
        if (x.c && random_below(&seed, 2))
            x.bias = (const struct values *)bias;
        if (x.c && random_below(&seed, 2))
            x.before_gelu = (struct values *)kept;

        const struct column_major product = column_major_of(&x);
        multiply_rows(&x, a, b, x.bias ? bias : NULL, expected_kept, expected);
        multiply_columns(&product, b, a, bias, kept, got);
        for (size_t i = 0; i < ROOM; i++)  // the gaps too: nobody may write there
            if (fabsf(got[i] - expected[i]) > 1e-5f || fabsf(kept[i] - expected_kept[i]) > 1e-5f)
                fail_msg("trial %llu: number %zu is %g and should be %g", (unsigned long long)trial, i, (double)got[i],
                         (double)expected[i]);
    }
}

static void a_plain_product_has_no_end(void **state)
{
    (void)state;
    _Alignas(16) float numbers[64] = { 0 };
    struct values *values = (struct values *)numbers;
    const struct matmul x = { .m = 2, .n = 4, .k = 3, .lda = 3, .ldb = 4, .ldc = 4, .a = values, .b = values,
                              .c = values, .bias = values, .before_gelu = values };
    const struct column_major product = column_major_of(&x), plain = column_major_plain(product);
    assert_true(product.has_bias && product.has_gelu && !plain.has_bias && !plain.has_gelu);
    struct matmul without = x;
    without.bias = without.before_gelu = NULL;
    const struct column_major expected = column_major_of(&without);
    assert_memory_equal(&plain, &expected, sizeof plain);
}

static void what_goes_into_the_gelu_is_kept_in_rows_of_a_multiple_of_8(void **state)
{
    (void)state;
    struct column_major product = { .has_gelu = 1, .result = { .leading = 12 } };
    assert_false(column_major_can_end(&product));
    product.result.leading = 16;
    assert_true(column_major_can_end(&product));
    product = (struct column_major){ .has_bias = 1, .result = { .leading = 12 } };
    assert_true(column_major_can_end(&product));
}

static void one_address_off_16_bytes_is_enough_to_be_unaligned(void **state)
{
    (void)state;
    _Alignas(16) float numbers[64] = { 0 };
    struct values *even = (struct values *)numbers, *odd = (struct values *)(numbers + 1);
    struct matmul x = { .m = 2, .n = 4, .k = 3, .lda = 3, .ldb = 4, .ldc = 4, .a = even, .b = even, .c = even,
                        .bias = even, .before_gelu = even };
    assert_true(column_major_of(&x).is_aligned);
    const void **const places[] = { (const void **)&x.a, (const void **)&x.b, (const void **)&x.c,
                                    (const void **)&x.bias, (const void **)&x.before_gelu };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        *places[i] = odd;
        assert_false(column_major_of(&x).is_aligned);
        *places[i] = even;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_of_columns_is_the_product_of_rows),
        cmocka_unit_test(a_plain_product_has_no_end),
        cmocka_unit_test(what_goes_into_the_gelu_is_kept_in_rows_of_a_multiple_of_8),
        cmocka_unit_test(one_address_off_16_bytes_is_enough_to_be_unaligned),
    };
    return cmocka_run_group_tests_name("column_major", tests, NULL, NULL);
}
