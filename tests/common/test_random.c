#include "common/random.h"

#include "tests/test.h"

// The first numbers after seed 1234567, as the author's reference prints them.
static void the_numbers_are_those_of_splitmix64(void **state)
{
    (void)state;
    static const uint64_t expected[] = { 6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                         4593380528125082431u, 16408922859458223821u };
    uint64_t seed = 1234567;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_true(random_next(&seed) == expected[i]);
}

static void numbers_stay_in_their_range_and_reach_all_of_it(void **state)
{
    (void)state;
    uint64_t seed = 1;
    unsigned seen[7] = { 0 };
    double least = 1, most = 0;
    for (int i = 0; i < 7000; i++) {
        const uint64_t below = random_below(&seed, 7);
        assert_in_range(below, 0, 6);
        seen[below]++;
        const double unit = random_unit(&seed);
        assert_true(unit >= 0 && unit < 1);
        least = unit < least ? unit : least;
        most = unit > most ? unit : most;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 850, 1150);
    assert_true(least < 0.01 && most > 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_those_of_splitmix64),
        cmocka_unit_test(numbers_stay_in_their_range_and_reach_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
