#include "common/array.h"

#include <stdlib.h>

#include "tests/test.h"

static void an_array_grows_by_doubling_and_keeps_what_it_has(void **state)
{
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0, moves = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const size_t before = capacity;
        assert_true(array_reserve(&items, &capacity, i + 1, sizeof items[0]));
        moves += capacity != before;
        items[i] = 7 * i;
    }
    assert_int_equal(capacity, 1024);
    assert_int_equal(moves, 7);  // 16, 32, ..., 1024
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], 7 * i);
    free(items);
}

static void many_items_at_once_get_what_they_need(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    size_t capacity = 0;
    assert_true(array_reserve(&items, &capacity, 100, sizeof items[0]));
    assert_int_equal(capacity, 100);
    assert_true(array_reserve(&items, &capacity, 100, sizeof items[0]));
    assert_int_equal(capacity, 100);
    assert_true(array_reserve(&items, &capacity, 101, sizeof items[0]));
    assert_int_equal(capacity, 200);
    free(items);
}

static void what_no_memory_holds_leaves_the_array_as_it_is(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    size_t capacity = 0;
    assert_true(array_reserve(&items, &capacity, 1, sizeof items[0]));
    items[0] = 5;
    assert_false(array_reserve(&items, &capacity, SIZE_MAX / 8 + 1, sizeof items[0]));
    assert_int_equal(capacity, 16);
    assert_int_equal(items[0], 5);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_grows_by_doubling_and_keeps_what_it_has),
        cmocka_unit_test(many_items_at_once_get_what_they_need),
        cmocka_unit_test(what_no_memory_holds_leaves_the_array_as_it_is),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
