#include "common/pause.h"

#include <stddef.h>

#include "tests/test.h"

// Looks until something that comes at `comes_ns` is seen; how many, and when it was seen.
static uint64_t looks_until(uint64_t comes_ns, uint64_t *seen_ns)
{
    uint64_t looks = 1;
    for (*seen_ns = 0; *seen_ns < comes_ns; looks++)
        *seen_ns += pause_ns(*seen_ns);
    return looks;
}

static void whoever_waits_is_late_by_a_part_of_the_wait(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(2000, 20000); trial++) {
        uint64_t seed = trial, seen_ns;
        const uint64_t comes_ns = random_below(&seed, (uint64_t)1 << (10 + random_below(&seed, 24)));
        looks_until(comes_ns, &seen_ns);
        const uint64_t late_ns = seen_ns - comes_ns;
        if (late_ns > LONGEST_PAUSE_NS || (late_ns > SHORTEST_PAUSE_NS && late_ns * PAUSE_PART > comes_ns))
            fail_msg("trial %llu: what comes after %llu ns is seen %llu ns late", (unsigned long long)trial,
                     (unsigned long long)comes_ns, (unsigned long long)late_ns);
    }
}

// At 10 us a look, the share of a core that waiting takes.
static void waiting_takes_a_small_part_of_a_core(void **state)
{
    (void)state;
    static const struct {
        uint64_t comes_ns, permille;
    } rows[] = { { 20000000, 50 }, { 100000000, 20 }, { 1000000000, 11 }, { 10000000000, 10 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t seen_ns;
        const uint64_t spent_ns = looks_until(rows[i].comes_ns, &seen_ns) * 10000;
        assert_in_range(spent_ns * 1000 / seen_ns, rows[i].permille / 2, rows[i].permille);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_is_late_by_a_part_of_the_wait),
        cmocka_unit_test(waiting_takes_a_small_part_of_a_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
