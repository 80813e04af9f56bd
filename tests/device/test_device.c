#include "device/device.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "device/kernels.h"
#include "device/maker.h"
#include "tests/test.h"

static struct device *open_cpu(void)
{
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    return device;
}

static void a_processor_tells_neither_its_clock_nor_its_memory(void **state)
{
    (void)state;
    struct device *device = open_cpu();
    assert_false(device_clocks(device, &(struct device_clocks){ 0 }));
    assert_false(device_room(device, &(uint64_t){ 0 }));
    device_close(device);
}

static void a_device_says_what_it_is(void **state)
{
    (void)state;
    struct device *device = open_cpu();
    assert_string_equal(device_name(device), "cpu");
    assert_non_null(strstr(device_description(device), ", "));
    device_close(device);
}

// oneDNN's names of what computes a product differ between versions, and a device goes by them.
static void vectors_of_bf16_are_used_where_they_are(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd")) {
        struct error error = { 0 };
        struct device *device = device_open("cpu:bf16", &error);
        assert_good(device, error);
        assert_non_null(strstr(device_description(device), "bf16 by avx512_bf16"));
        device_close(device);
        return;
    }
#endif
    TEST_SKIP("no AMD processor with avx512_bf16");
}

static struct name_row {
    const char *name;
    const char *asked, *sentence;
} name_rows[] = {
    { "an unknown device is refused", "abacus", "there is no device abacus (the devices are: cpu and cuda)" },
    { "the beginning of a name is not the name", "cp", "there is no device cp (the devices are: cpu and cuda)" },
    { "an unknown instruction set is refused", "cpu:mmx",
      "there is no device cpu:mmx (cpu:baseline, cpu:avx2, cpu:avx512, cpu:bf16, cpu:fp16, cpu:queued, "
      "cpu:queued,mpi, cpu:queued,graphs and cpu:link=2GB/s are)" },
    { "an empty word is refused", "cpu:queued,", "there is no device cpu: (cpu:baseline, cpu:avx2, cpu:avx512, "
      "cpu:bf16, cpu:fp16, cpu:queued, cpu:queued,mpi, cpu:queued,graphs and cpu:link=2GB/s are)" },
    { "two precisions are refused", "cpu:bf16,fp16", "there is no device cpu:bf16,fp16 (a device has one of bf16 and "
      "fp16)" },
    { "a link without a rate is refused", "cpu:queued,link=2GB", "there is no device cpu:link=2GB (behind \"link=\" "
      "stands the rate to and from its host, such as cpu:link=2GB/s)" },
};

static void a_bad_name_is_refused(void **state)
{
    const struct name_row *row = *state;
    struct error error = { 0 };
    assert_null(device_open(row->asked, &error));
    assert_error(error, row->sentence);
}

static void memory_counts_itself(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    void *a = device_allocate(device, 1000, &error);
    void *b = device_allocate(device, 24, &error);
    assert_int_equal((uintptr_t)a % 256, 0);
    assert_int_equal((uintptr_t)b % 256, 0);
    device_release(device, a);
    void *none = device_allocate(device, 0, &error);
    assert_non_null(none);
    struct device_memory memory = device_memory(device);
    assert_int_equal(memory.current_bytes, 24);
    assert_int_equal(memory.peak_bytes, 1024);
    assert_int_equal(memory.allocations, 3);

    device_memory_reset_peak(device);
    assert_int_equal(device_memory(device).peak_bytes, 24);
    device_release(device, b);
    device_release(device, none);
    device_release(device, NULL);
    assert_int_equal(device_memory(device).current_bytes, 0);
    assert_int_equal(device_memory(device).allocations, 3);
    device_close(device);
}

static void memory_nobody_has_is_an_error(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    assert_null(device_allocate(device, UINT64_MAX - 5, &error));
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_memory_equal(error.text, "no memory for ", 14);
    assert_int_equal(device_memory(device).current_bytes, 0);
    device_close(device);
}

static void bytes_go_up_across_and_down(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    struct queue *queue = queue_create(device, &error);
    char *a = device_allocate(device, 64, &error), *b = device_allocate(device, 64, &error);
    char host[8] = "????";
    queue_zero(queue, b, 64);
    queue_upload(queue, a, "weir", 4);
    queue_copy(queue, b, a, 4);
    queue_copy(queue, b, b, 4);
    queue_download(queue, host, b, 8);
    assert_good(queue_wait(queue, &error), error);
    assert_memory_equal(host, "weir\0\0\0", 8);
    assert_ptr_equal(queue_device(queue), device);
    device_release(device, a);
    device_release(device, b);
    queue_free(queue);
    device_close(device);
}

static void the_hosts_memory_is_counted_apart(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    void *host = device_allocate_host(device, 1000, &error);
    assert_non_null(host);
    assert_int_equal((uintptr_t)host % 256, 0);
    assert_int_equal(device_memory(device).host_bytes, 1000);
    assert_int_equal(device_memory(device).peak_bytes, 0);
    device_release(device, host);
    assert_int_equal(device_memory(device).host_bytes, 0);
    device_close(device);
}

static const char *const linked_names[] = { "cpu:link=1MB/s", "cpu:queued,link=1MB/s", "cpu:queued,graphs" };

// There and back, as slowly as the link is.
static void bytes_go_to_the_host_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof linked_names / sizeof linked_names[0]; i++) {
        struct error error = { 0 };
        struct device *device = device_open(linked_names[i], &error);
        assert_good(device, error);
        struct queue *queue = queue_create(device, &error);
        struct event *events[] = { event_create(device, &error), event_create(device, &error) };
        char *a = device_allocate(device, 4096, &error), *host = device_allocate_host(device, 4096, &error);
        char back[4096] = { 0 };
        assert_true(queue && events[0] && events[1] && a && host);
        queue_upload(queue, a, "weir", 5);
        event_record(events[0], queue);
        queue_transfer(queue, host, a, 4096);
        queue_zero(queue, a, 4096);
        queue_transfer(queue, a, host, 4096);
        event_record(events[1], queue);
        queue_download(queue, back, a, 4096);
        assert_good(queue_wait(queue, &error), error);
        assert_string_equal(back, "weir");
        if (strstr(linked_names[i], "link"))
            assert_true(event_time_ns(events[1]) - event_time_ns(events[0]) >= 2 * (uint64_t)4096000);
        device_release(device, a);
        device_release(device, host);
        event_free(events[0]);
        event_free(events[1]);
        queue_free(queue);
        device_close(device);
    }
}

static void write_three(struct queue *queue, const void *arguments)
{
    (void)queue;
    **(float *const *)arguments = 3;
}

static void a_function_of_the_host_is_called_in_its_turn(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    struct queue *queue = queue_create(device, &error);
    float *x = device_allocate(device, 64, &error);
    kernel_fill(queue, (struct values *)x, 1, 16);
    queue_call(queue, write_three, &x, sizeof x);
    float *second = x + 1;
    queue_call_host(queue, write_three, &second, sizeof second);
    assert_false(queue_has_failed(queue));
    assert_good(queue_report(queue, &error) && queue_wait(queue, &error), error);
    assert_true(x[0] == 3 && x[1] == 3 && x[2] == 1);
    device_release(device, x);
    queue_free(queue);
    device_close(device);
}

// Whatever a device is, and however it computes, what is done for it on its host has its precision.
static void a_host_computes_as_its_device(void **state)
{
    (void)state;
    static const char *const names[] = { "cpu", "cpu:baseline", "cpu:queued,link=1GB/s", "cpu:bf16,queued" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error error = { 0 };
        struct device *device = device_open(names[i], &error);
        assert_good(device, error);
        struct device *host = device_open_host(device, &error);
        assert_good(host, error);
        assert_int_equal(device_precision(host), device_precision(device));
        assert_false(device_runs_ahead(host));
        assert_true(i != 1 || strstr(device_description(host), "baseline"));
        device_close(host);
        device_close(device);
    }
}

static void a_queue_keeps_its_first_error_and_does_nothing_after(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    struct queue *queue = queue_create(device, &error);
    float *x = device_allocate(device, 64, &error);
    kernel_fill(queue, (struct values *)x, 1, 16);
    queue_fail(queue, "the first trouble");
    queue_fail(queue, "the second");
    kernel_fill(queue, (struct values *)x, 2, 16);
    queue_zero(queue, x, 64);
    queue_call(queue, write_three, &x, sizeof x);
    assert_true(queue_has_failed(queue));
    assert_false(queue_wait(queue, &error));
    assert_error(error, "the first trouble");
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_true(x[0] == 1);

    struct error again = { 0 };
    assert_false(queue_wait(queue, &again));
    assert_error(again, "the first trouble");
    device_release(device, x);
    queue_free(queue);
    device_close(device);
}

static void a_recorded_event_is_done(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    struct queue *one = queue_create(device, &error), *two = queue_create(device, &error);
    struct event *event = event_create(device, &error);
    const uint64_t start_ns = clock_now_ns();
    event_record(event, one);
    queue_wait_event(two, event);
    assert_good(queue_wait(two, &error), error);
    assert_true(event_done(event));
    assert_true(event_time_ns(event) >= start_ns && event_time_ns(event) <= clock_now_ns());
    assert_true(queue_is_done(one) && !device_runs_ahead(device));
    event_free(event);
    queue_free(one);
    queue_free(two);
    queue_free(NULL);
    event_free(NULL);
    device_close(device);
    device_close(NULL);
}

static void *allocate_and_release(void *device)
{
    struct error error = { 0 };
    for (int i = 0; i < 200; i++) {
        void *memory = device_allocate(device, 100, &error);
        device_release(device, memory);
    }
    return NULL;
}

static void two_threads_count_as_one(void **state)
{
    (void)state;
    struct device *device = open_cpu();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_and_release, device), 0);
    allocate_and_release(device);
    pthread_join(thread, NULL);
    const struct device_memory memory = device_memory(device);
    assert_int_equal(memory.current_bytes, 0);
    assert_int_equal(memory.allocations, 400);
    assert_true(memory.peak_bytes == 100 || memory.peak_bytes == 200);
    device_close(device);
}

// --- what cannot be ended ----------------------------------------------------------------------

static bool ends_never(struct communicator *communicator, uint64_t limit_ns)
{
    (void)communicator, (void)limit_ns;
    return false;
}

static void a_device_whose_messages_cannot_be_ended_is_stuck(void **state)
{
    (void)state;
    const struct communicator_functions communicators = { .abort = ends_never };
    const struct device_functions functions = { .communicators = &communicators };
    struct device device = { .functions = &functions, .communicators = &communicators };
    struct communicator communicator = { .device = &device, .ranks = 2 };
    assert_false(device_is_stuck(&device));
    assert_false(communicator_abort(&communicator, 1));
    assert_true(device_is_stuck(&device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_says_what_it_is),
        cmocka_unit_test(vectors_of_bf16_are_used_where_they_are),
        cmocka_unit_test(a_processor_tells_neither_its_clock_nor_its_memory),
        TEST_ROW(a_bad_name_is_refused, &name_rows[0]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[1]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[2]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[3]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[4]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[5]),
        cmocka_unit_test(memory_counts_itself),
        cmocka_unit_test(memory_nobody_has_is_an_error),
        cmocka_unit_test(bytes_go_up_across_and_down),
        cmocka_unit_test(the_hosts_memory_is_counted_apart),
        cmocka_unit_test(bytes_go_to_the_host_and_back),
        cmocka_unit_test(a_function_of_the_host_is_called_in_its_turn),
        cmocka_unit_test(a_host_computes_as_its_device),
        cmocka_unit_test(a_queue_keeps_its_first_error_and_does_nothing_after),
        cmocka_unit_test(a_recorded_event_is_done),
        cmocka_unit_test(two_threads_count_as_one),
        cmocka_unit_test(a_device_whose_messages_cannot_be_ended_is_stuck),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
