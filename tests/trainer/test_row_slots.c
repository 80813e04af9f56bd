// Places of rows against a plain list of them.
#include "trainer/row_slots.h"

#include "common/random.h"
#include "tests/test.h"

static int32_t listed_at(const uint32_t *list, size_t count, uint32_t row)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == row)
            return (int32_t)i;
    return NOT_THERE;
}

enum { MOST = 300 };

static void places_are_those_of_a_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct row_slots slots;
        uint64_t draws = seed;
        uint32_t list[MOST];
        size_t count = 0;
        const uint64_t rows = 1 + random_below(&draws, seed % 2 ? 400 : UINT32_MAX);
        assert_true(row_slots_open(&slots, random_below(&draws, 40), NULL));
        for (size_t i = 0; i < MOST; i++) {
            const uint32_t row = (uint32_t)random_below(&draws, rows);
            const int32_t at = listed_at(list, count, row);
            assert_int_equal(row_slots_find(&slots, row), at);
            if (at == NOT_THERE)
                list[count++] = row;
            assert_int_equal(row_slots_add(&slots, row), at == NOT_THERE ? (int32_t)count - 1 : at);
            assert_int_equal(slots.count, count);
            if (i == MOST / 2 && seed % 3 == 0) {
                row_slots_clear(&slots);
                count = 0;
                assert_int_equal(row_slots_find(&slots, row), NOT_THERE);
            }
        }
        assert_memory_equal(slots.rows, list, count * sizeof list[0]);
        row_slots_close(&slots);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
