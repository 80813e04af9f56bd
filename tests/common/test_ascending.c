#include "common/ascending.h"

#include <stdlib.h>

#include "common/random.h"
#include "tests/test.h"

enum { COUNT = 50 };

static void numbers_are_in_ascending_order(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(100, 1000); trial++) {
        uint64_t seed = trial, wide[COUNT];
        uint32_t narrow[COUNT];
        double fractions[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            wide[i] = random_below(&seed, 2) ? random_next(&seed) : random_below(&seed, 10);
            narrow[i] = (uint32_t)wide[i];
            fractions[i] = random_unit(&seed) - 0.5;
        }
        qsort(wide, COUNT, sizeof wide[0], ascending_u64s);
        qsort(narrow, COUNT, sizeof narrow[0], ascending_u32s);
        qsort(fractions, COUNT, sizeof fractions[0], ascending_doubles);
        for (size_t i = 1; i < COUNT; i++)
            if (wide[i - 1] > wide[i] || narrow[i - 1] > narrow[i] || fractions[i - 1] > fractions[i])
                fail_msg("trial %llu: number %zu is below the one before it", (unsigned long long)trial, i);
    }
}

static void equal_numbers_compare_as_equal(void **state)
{
    (void)state;
    const uint64_t wide[] = { UINT64_MAX, UINT64_MAX };
    const uint32_t narrow[] = { UINT32_MAX, UINT32_MAX };
    const double fractions[] = { -0.25, -0.25 };
    assert_int_equal(ascending_u64s(&wide[0], &wide[1]), 0);
    assert_int_equal(ascending_u32s(&narrow[0], &narrow[1]), 0);
    assert_int_equal(ascending_doubles(&fractions[0], &fractions[1]), 0);
}

static void texts_are_in_ascending_order(void **state)
{
    (void)state;
    const char *texts[] = { "b", "", "ab", "a", "b" };
    qsort(texts, 5, sizeof texts[0], ascending_texts);
    assert_string_equal(texts[0], "");
    assert_string_equal(texts[1], "a");
    assert_string_equal(texts[2], "ab");
    assert_string_equal(texts[3], "b");
    assert_string_equal(texts[4], "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_in_ascending_order),
        cmocka_unit_test(equal_numbers_compare_as_equal),
        cmocka_unit_test(texts_are_in_ascending_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
