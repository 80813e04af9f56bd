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

static void a_wait_without_a_signal_ends_at_its_time(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    const uint64_t until_ns = clock_now_ns() + 2000000;
    pthread_mutex_lock(&lock);
    while (clock_wait(&condition, &lock, until_ns))
        ;  // the system may wake a waiter without a reason
    pthread_mutex_unlock(&lock);
    assert_true(clock_now_ns() >= until_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_passes_and_never_goes_back),
        cmocka_unit_test(the_thread_clock_counts_work_and_not_sleep),
        cmocka_unit_test(a_wait_without_a_signal_ends_at_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
