// The majority is counted on the samples to train on, and judged on those held out.
#include "trainer/majority.h"

#include "tests/trainer/clicks.h"

static void the_majority_is_counted(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct random_clicks clicks = { seed, 1 + seed % 9, 5, 2, 1, 10, 2 };
        struct sample_data data;
        int counts[2] = { 0, 0 }, right[2] = { 0, 0 };
        random_clicks_load(&clicks, &data);
        for (uint64_t i = 0; i < clicks.train; i++)
            counts[random_click(&clicks, i).label]++;
        for (uint64_t i = 0; i < clicks.held; i++)
            right[random_click(&clicks, clicks.train + i).label]++;
        assert_true(majority_right(&data, 2) == right[counts[1] > counts[0]] / 5.0);
        sample_data_clear(&data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_majority_is_counted) };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
