#include "device/device_names.h"

#include <string.h>

#include "tests/test.h"

static struct between_row {
    const char *name;
    const char *device;
    bool are_several;
    const char *expected;
    bool is_mpi;
} between_rows[] = {
    { "queues of one machine stay as they are", "cpu:queued", false, "cpu:queued", false },
    { "queues of several send by MPI", "cpu:queued", true, "cpu:queued,mpi", true },
    { "in bfloat16, too", "cpu:bf16,queued", true, "cpu:bf16,queued,mpi", true },
    { "who asks for MPI has it on one machine", "cpu:queued,mpi", false, "cpu:queued,mpi", true },
    { "nothing is said twice", "cpu:queued,mpi", true, "cpu:queued,mpi", true },
    { "a processor without queues sends nothing", "cpu", true, "cpu", false },
    { "GPUs have a way of their own", "cuda:2,bf16", true, "cuda:2,bf16", false },
};

static void between_machines_a_device_sends_by_what_reaches_them(void **state)
{
    const struct between_row *row = *state;
    char name[DEVICE_NAME_SIZE];
    struct error error = { 0 };
    bool is_mpi;
    strcpy(name, row->device);
    assert_good(device_name_between_machines(name, row->are_several, &is_mpi, &error), error);
    assert_string_equal(name, row->expected);
    assert_int_equal(is_mpi, row->is_mpi);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[0]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[1]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[2]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[3]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[4]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[5]),
        TEST_ROW(between_machines_a_device_sends_by_what_reaches_them, &between_rows[6]),
    };
    return cmocka_run_group_tests_name("device names", tests, NULL, NULL);
}
