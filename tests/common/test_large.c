#include "common/large.h"

#include <stdint.h>
#include <stdlib.h>

#include "tests/test.h"

static void large_array_is_there_to_its_last_byte(void **state)
{
    (void)state;
    static const size_t counts[] = { 1, 1000, (2u << 20) - 1, 2u << 20, (7u << 20) + 3 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        unsigned char *zeros = large_calloc(counts[i], 1), *any = large_malloc(counts[i], 1);
        assert_true(zeros && any);
        for (size_t at = 0; at < counts[i]; at++) {
            if (zeros[at])
                fail_msg("byte %zu of %zu is %d", at, counts[i], zeros[at]);
            any[at] = zeros[at] = (unsigned char)(at % 251 + 1);
        }
        for (size_t at = 0; at < counts[i]; at++) {
            if (any[at] != at % 251 + 1 || zeros[at] != any[at])
                fail_msg("byte %zu of %zu was not kept", at, counts[i]);
        }
        free(zeros);
        free(any);
    }
}

static void an_aligned_array_is_aligned_and_there_to_its_last_byte(void **state)
{
    (void)state;
    static const size_t counts[] = { 256, 2u << 20, (7u << 20) + 256 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        unsigned char *any = large_aligned_alloc(256, counts[i]);
        assert_non_null(any);
        assert_int_equal((uintptr_t)any % 256, 0);
        for (size_t at = 0; at < counts[i]; at++)
            any[at] = (unsigned char)(at % 251);
        for (size_t at = 0; at < counts[i]; at++)
            if (any[at] != at % 251)
                fail_msg("byte %zu of %zu was not kept", at, counts[i]);
        free(any);
    }
}

static void more_than_there_is_comes_back_empty(void **state)
{
    (void)state;
    assert_null(large_calloc(SIZE_MAX / 2, 4));
    assert_null(large_malloc(SIZE_MAX / 2, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_array_is_there_to_its_last_byte),
        cmocka_unit_test(an_aligned_array_is_aligned_and_there_to_its_last_byte),
        cmocka_unit_test(more_than_there_is_comes_back_empty),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
