#include "runtime/shards/shard_group.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

enum { MOST = 5, PLACES = 2, TURNS = 3 };

static struct row {
    const char *name, *device;
    uint32_t members;
    size_t count;
    enum shard_meet meet;
} rows[] = {
    { "two on the cpu", "cpu", 2, 1000, MEET_ALL_REDUCE },
    { "three, and fewer numbers than shares have at least", "cpu", 3, 7, MEET_ALL_REDUCE },
    { "five on queues that run ahead", "cpu:queued", 5, 4099, MEET_ALL_REDUCE },
    { "three of bfloat16", "cpu:bf16", 3, 777, MEET_ALL_REDUCE },
    { "two, scattered", "cpu", 2, 1000, MEET_REDUCE_SCATTER },
    { "five on queues that run ahead, scattered", "cpu:queued", 5, 4095, MEET_REDUCE_SCATTER },
    { "three of bfloat16, scattered", "cpu:bf16", 3, 9, MEET_REDUCE_SCATTER },
    { "two, gathered", "cpu", 2, 1000, MEET_ALL_GATHER },
    { "five on queues that run ahead, gathered", "cpu:queued", 5, 4095, MEET_ALL_GATHER },
    { "three of bfloat16, gathered", "cpu:bf16", 3, 9, MEET_ALL_GATHER },
    { "two, all to all", "cpu", 2, 1000, MEET_ALL_TO_ALL },
    { "five on queues that run ahead, all to all", "cpu:queued", 5, 4095, MEET_ALL_TO_ALL },
    { "three of bfloat16, all to all", "cpu:bf16", 3, 9, MEET_ALL_TO_ALL },
};

// A member: a thread with a queue, whose part is another each turn.
struct member {
    struct shard_group *group;
    struct queue *queue;
    struct values *part, *received;
    uint32_t number, members;
    size_t count;
    enum shard_meet meet;
    unsigned char *sums[TURNS];  // what it was given
    pthread_t thread;
    struct error error;
};

static void *add_up(void *argument)
{
    struct member *member = argument;
    const size_t bytes = member->count * precision_bytes(device_precision(queue_device(member->queue)));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        kernel_fill_normal(member->queue, member->part, 1, member->number * TURNS + turn, 0, member->count);
        const struct attendance at = { turn % PLACES, member->members, member->number };
        const struct shard_numbers part = { .at = member->part, .count = member->count, .meet = member->meet,
                                            .received = member->received };
        shard_group_meet(member->group, &at, member->queue, &part);
        queue_download(member->queue, member->sums[turn],
                       member->meet == MEET_ALL_TO_ALL ? member->received : member->part, bytes);
    }
    queue_wait(member->queue, &member->error);
    return NULL;
}

static void open_members(struct member *members, const struct row *row, struct device *device,
                         struct shard_group *group)
{
    struct error error = { 0 };
    for (uint32_t m = 0; m < row->members; m++) {
        members[m] = (struct member){ .group = group, .number = m, .members = row->members,
                                      .count = row->count, .meet = row->meet };
        members[m].queue = queue_create(device, &error);
        members[m].part = device_allocate(device, row->count * sizeof(float), &error);
        members[m].received = device_allocate(device, row->count * sizeof(float), &error);
        assert_good(members[m].queue && members[m].part && members[m].received, error);
        for (size_t turn = 0; turn < TURNS; turn++)
            assert_non_null(members[m].sums[turn] = calloc(row->count, sizeof(float)));
    }
}

static void run_members(struct member *members, uint32_t count)
{
    for (uint32_t m = 0; m < count; m++)
        assert_int_equal(pthread_create(&members[m].thread, NULL, add_up, &members[m]), 0);
    for (uint32_t m = 0; m < count; m++)
        pthread_join(members[m].thread, NULL);
}

static void close_members(struct member *members, uint32_t count, struct device *device)
{
    for (uint32_t m = 0; m < count; m++) {
        queue_free(members[m].queue);
        device_release(device, members[m].part);
        device_release(device, members[m].received);
        for (size_t turn = 0; turn < TURNS; turn++)
            free(members[m].sums[turn]);
    }
}

// ((part 0 + part 1) + part 2) + .., one after the other.
static void slow_sum(struct device *device, const struct row *row, uint32_t turn, unsigned char *sum)
{
    struct error error = { 0 };
    struct queue *queue = queue_create(device, &error);
    struct values *all = device_allocate(device, row->count * sizeof(float), &error);
    struct values *part = device_allocate(device, row->count * sizeof(float), &error);
    assert_good(queue && all && part, error);
    kernel_fill_normal(queue, all, 1, turn, 0, row->count);
    for (uint32_t m = 1; m < row->members; m++) {
        kernel_fill_normal(queue, part, 1, m * TURNS + turn, 0, row->count);
        kernel_add(queue, all, all, part, row->count);
    }
    queue_download(queue, sum, all, row->count * precision_bytes(device_precision(device)));
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    device_release(device, all);
    device_release(device, part);
}

// Share by share what its member brings, or the share of `to` that each member brings.
static void slow_gather(struct device *device, const struct row *row, uint32_t turn, uint32_t to, unsigned char *all)
{
    struct error error = { 0 };
    struct queue *queue = queue_create(device, &error);
    struct values *part = device_allocate(device, row->count * sizeof(float), &error);
    assert_good(queue && part, error);
    const size_t bytes = row->count / row->members * precision_bytes(device_precision(device));
    for (uint32_t m = 0; m < row->members; m++) {
        kernel_fill_normal(queue, part, 1, m * TURNS + turn, 0, row->count);
        queue_download(queue, all + m * bytes, (char *)part + (row->meet == MEET_ALL_TO_ALL ? to : m) * bytes, bytes);
        assert_good(queue_wait(queue, &error), error);
    }
    queue_free(queue);
    device_release(device, part);
}

static void all_get_what_they_meet_for(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open(row->device, &error);
    assert_good(device, error);
    struct shard_group *group = shard_group_create(device, row->members, PLACES, 0, &error);
    assert_good(group, error);
    struct member members[MOST];
    open_members(members, row, device, group);
    run_members(members, row->members);
    assert_good(shard_group_is_well(group, &error), error);
    unsigned char *sum = calloc(row->count, sizeof(float));
    assert_non_null(sum);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        const size_t bytes = row->count * precision_bytes(device_precision(device));
        const bool adds = row->meet == MEET_ALL_REDUCE || row->meet == MEET_REDUCE_SCATTER;
        if (adds)
            slow_sum(device, row, turn, sum);
        for (uint32_t m = 0; m < row->members; m++) {
            if (!adds)
                slow_gather(device, row, turn, m, sum);
            const bool has_share = row->meet == MEET_REDUCE_SCATTER;
            const size_t own = has_share ? bytes / row->members : bytes, at = has_share ? m * own : 0;
            assert_memory_equal(members[m].sums[turn] + at, sum + at, own);
        }
    }
    free(sum);
    close_members(members, row->members, device);
    shard_group_free(group);
    device_close(device);
}

struct failing {
    struct device *device;
    struct shard_group *group;
    struct member members[2];
};

static void failing_open(struct failing *failing, uint64_t deadline_ns)
{
    struct error error = { 0 };
    failing->device = device_open("cpu", &error);
    assert_good(failing->device, error);
    failing->group = shard_group_create(failing->device, 2, PLACES, deadline_ns, &error);
    assert_good(failing->group, error);
    open_members(failing->members, &rows[0], failing->device, failing->group);
}

static void failing_close(struct failing *failing, uint32_t failed, const char *sentence)
{
    struct error error = { 0 };
    assert_false(shard_group_is_well(failing->group, &error));
    assert_error(error, sentence);
    for (uint32_t m = 0; m < failed; m++)
        assert_error(failing->members[m].error, sentence);
    close_members(failing->members, 2, failing->device);
    shard_group_free(failing->group);
    device_close(failing->device);
}

static void who_waits_for_one_that_fails_is_told(void **state)
{
    (void)state;
    struct failing failing;
    struct error reason = { 0 };
    failing_open(&failing, 0);
    assert_int_equal(pthread_create(&failing.members[0].thread, NULL, add_up, &failing.members[0]), 0);
    error_set_kind(&reason, ERROR_MACHINE, "rank 1: it burns");
    shard_group_abandon(failing.group, 0, &reason);
    pthread_join(failing.members[0].thread, NULL);
    failing_close(&failing, 1, "rank 1: it burns");
}

static void nobody_waits_past_the_deadline(void **state)
{
    (void)state;
    struct failing failing;
    failing_open(&failing, 20000000);
    run_members(failing.members, 1);
    failing_close(&failing, 1, "device 1 of a group of 2 did not come to a sum with the others within 20.0 ms");
}

static void parts_of_unlike_size_are_refused(void **state)
{
    (void)state;
    struct failing failing;
    failing_open(&failing, 0);
    failing.members[1].count = 999;
    run_members(failing.members, 2);
    failing_close(&failing, 2, "device 1 of a group brings 999 numbers to a sum, device 0 1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(all_get_what_they_meet_for, &rows[0]),
        TEST_ROW(all_get_what_they_meet_for, &rows[1]),
        TEST_ROW(all_get_what_they_meet_for, &rows[2]),
        TEST_ROW(all_get_what_they_meet_for, &rows[3]),
        TEST_ROW(all_get_what_they_meet_for, &rows[4]),
        TEST_ROW(all_get_what_they_meet_for, &rows[5]),
        TEST_ROW(all_get_what_they_meet_for, &rows[6]),
        TEST_ROW(all_get_what_they_meet_for, &rows[7]),
        TEST_ROW(all_get_what_they_meet_for, &rows[8]),
        TEST_ROW(all_get_what_they_meet_for, &rows[9]),
        TEST_ROW(all_get_what_they_meet_for, &rows[10]),
        TEST_ROW(all_get_what_they_meet_for, &rows[11]),
        TEST_ROW(all_get_what_they_meet_for, &rows[12]),
        cmocka_unit_test(who_waits_for_one_that_fails_is_told),
        cmocka_unit_test(nobody_waits_past_the_deadline),
        cmocka_unit_test(parts_of_unlike_size_are_refused),
    };
    return cmocka_run_group_tests_name("shard_group", tests, NULL, NULL);
}
