#include "common/clock.h"

#include <time.h>

#include "tests/test.h"

static void time_passes_and_never_goes_back(void **state)
{
    (void)state;
    uint64_t last = clock_now_ns();
    for (int i = 0; i < 1000; i++) {
        const uint64_t now = clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
    const struct timespec pause = { .tv_nsec = 2000000 };
    nanosleep(&pause, NULL);
    assert_true(clock_now_ns() >= last + 2000000);
}

// Sleeping costs no time on a core, working does. The two clocks are compared
// with each other, since how long anything takes is not ours to say.
static void the_thread_clock_counts_work_and_not_sleep(void **state)
{
    (void)state;
    const uint64_t cpu = clock_thread_cpu_ns(), wall = clock_now_ns();
    const struct timespec pause = { .tv_nsec = 50000000 };
    nanosleep(&pause, NULL);
    const uint64_t slept_cpu = clock_thread_cpu_ns() - cpu, slept_wall = clock_now_ns() - wall;
    assert_true(slept_cpu < slept_wall / 2);

    const uint64_t before = clock_thread_cpu_ns();
    for (uint64_t after = before; after <= before; after = clock_thread_cpu_ns())
        assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_passes_and_never_goes_back),
        cmocka_unit_test(the_thread_clock_counts_work_and_not_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
