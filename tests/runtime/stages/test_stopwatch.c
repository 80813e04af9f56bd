#include "runtime/stages/stopwatch.h"

#include <time.h>

#include "common/clock.h"
#include "tests/test.h"

static struct device_row {
    const char *name, *device;
} device_rows[] = {
    { "where all is done at once", "cpu" },
    { "where a queue runs ahead", "cpu:queued" },
};

static void sleep_in_turn(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct timespec time = { 0, *(const long *)arguments };
    nanosleep(&time, NULL);
}

static const long short_ns = 2000000, long_ns = 30000000;

static void measured(struct stopwatch *stopwatch, struct queue *queue)
{
    struct error error = { 0 };
    assert_good(stopwatch_mark(stopwatch, queue, &error), error);
    queue_call(queue, sleep_in_turn, &short_ns, sizeof short_ns);
    assert_good(stopwatch_mark(stopwatch, queue, &error), error);
}

static void only_what_is_between_marks_counts(void **state)
{
    const struct device_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open(row->device, &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    struct stopwatch stopwatch = { 0 };
    assert_int_equal(stopwatch_read(&stopwatch), 0);
    for (int again = 0; again < 2; again++) {
        const uint64_t start_ns = clock_now_ns();
        stopwatch_reset(&stopwatch);
        measured(&stopwatch, queue);
        queue_call(queue, sleep_in_turn, &long_ns, sizeof long_ns);
        measured(&stopwatch, queue);
        assert_good(queue_wait(queue, &error), error);
        const uint64_t all_ns = clock_now_ns() - start_ns, sum_ns = stopwatch_read(&stopwatch);
        assert_true(sum_ns >= 2 * (uint64_t)short_ns && sum_ns <= all_ns - (uint64_t)long_ns);
        assert_int_equal(stopwatch.made, 4);
    }
    stopwatch.known_ns = 7;
    const uint64_t with_ns = stopwatch_read(&stopwatch);
    stopwatch.known_ns = 0;
    assert_int_equal(stopwatch_read(&stopwatch) + 7, with_ns);
    stopwatch_close(&stopwatch);
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(only_what_is_between_marks_counts, &device_rows[0]),
        TEST_ROW(only_what_is_between_marks_counts, &device_rows[1]),
    };
    return cmocka_run_group_tests_name("stopwatch", tests, NULL, NULL);
}
