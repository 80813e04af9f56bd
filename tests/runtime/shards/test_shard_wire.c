// Groups whose members have a device each: all get ((part 0 + part 1) + part 2) + .., in pieces of any size.
#include "runtime/shards/shard_wire.h"

#include <pthread.h>
#include <string.h>

#include "device/communicator.h"
#include "runtime/groups/thread_group.h"
#include "tests/test.h"

enum { MOST = 5, TURNS = 3 };

static struct row {
    const char *name, *device;
    uint32_t first[4];  // places of three ranks, and one behind
    size_t count;
    uint64_t room_bytes;
    enum shard_meet meet;
} rows[] = {
    { "two and three, in one piece", "cpu:queued", { 0, 2, 5, 5 }, 4099, 0, MEET_ALL_REDUCE },
    { "five, in many pieces", "cpu:queued", { 0, 5, 5, 5 }, 4099, 4 * 64 * sizeof(float), MEET_ALL_REDUCE },
    { "four, in a piece and a bit", "cpu:queued", { 0, 4, 4, 4 }, 4 * 128 + 63, 3 * 128 * sizeof(float), MEET_ALL_REDUCE },
    { "fewer numbers than shares have at least", "cpu:queued", { 0, 1, 4, 4 }, 7, 0, MEET_ALL_REDUCE },
    { "three of bfloat16", "cpu:queued,bf16", { 0, 3, 3, 3 }, 777, 1000, MEET_ALL_REDUCE },
    { "two and three, scattered in one piece", "cpu:queued", { 0, 2, 5, 5 }, 4098, 0, MEET_REDUCE_SCATTER },
    { "five, scattered in many pieces", "cpu:queued", { 0, 5, 5, 5 }, 4095, 4 * 64 * sizeof(float), MEET_REDUCE_SCATTER },
    { "three of bfloat16, scattered", "cpu:queued,bf16", { 0, 3, 3, 3 }, 777, 1000, MEET_REDUCE_SCATTER },
    { "two and three, gathered in one piece", "cpu:queued", { 0, 2, 5, 5 }, 4098, 0, MEET_ALL_GATHER },
    { "five, gathered in many pieces", "cpu:queued", { 0, 5, 5, 5 }, 4095, 4 * 64 * sizeof(float), MEET_ALL_GATHER },
    { "three of bfloat16, gathered", "cpu:queued,bf16", { 0, 3, 3, 3 }, 777, 1000, MEET_ALL_GATHER },
    { "two and three, all to all", "cpu:queued", { 0, 2, 5, 5 }, 4098, 0, MEET_ALL_TO_ALL },
    { "five, all to all, in more than the room", "cpu:queued", { 0, 5, 5, 5 }, 4095, 4 * 64 * sizeof(float),
      MEET_ALL_TO_ALL },
    { "three of bfloat16, all to all", "cpu:queued,bf16", { 0, 3, 3, 3 }, 777, 1000, MEET_ALL_TO_ALL },
};

// A place: a thread with a device, whose part is another each turn.
struct place {
    const struct row *row;
    struct process_group group;
    struct rank_grid grid;
    unsigned char *sums[TURNS];  // what it was given
    pthread_t thread;
    struct error error;
};

static void sit(struct place *place)
{
    place->grid = (struct rank_grid){ .ranks = 3, .members = MOST, .most = MOST, .group = &place->group,
                                   .first = (uint32_t *)(uintptr_t)place->row->first };
    while (place->grid.first[place->grid.rank + 1] <= place->group.rank)
        place->grid.rank++;
}

static uint64_t key_of(uint32_t place, uint32_t turn)
{
    return place * TURNS + turn;
}

static bool add_turns(struct place *place, struct device *device, struct shard_wire *wire, struct queue *queue,
                      struct values *part, struct values *received)
{
    const size_t count = place->row->count;
    const struct values *result = place->row->meet == MEET_ALL_TO_ALL ? received : part;
    bool good = true;
    for (uint32_t turn = 0; good && turn < TURNS; turn++) {
        kernel_fill_normal(queue, part, 1, key_of(place->group.rank, turn), 0, count);
        const struct shard_numbers own = { .at = part, .count = count, .meet = place->row->meet, .received = received };
        good = !wire || shard_wire_meet(wire, queue, &own, &place->error);
        queue_download(queue, place->sums[turn], result, count * precision_bytes(device_precision(device)));
    }
    return good && queue_wait(queue, &place->error);
}

static void *add_up(void *argument)
{
    struct place *place = argument;
    struct device *device = device_open(place->row->device, &place->error);
    const struct shard_wire_settings settings = { .grid = &place->grid, .device = device,
                                                  .most_bytes = place->row->count * sizeof(float),
                                                  .room_bytes = place->row->room_bytes };
    struct shard_wire *wire = NULL;
    struct queue *queue = device ? queue_create(device, &place->error) : NULL;
    struct values *part = device ? device_allocate(device, place->row->count * sizeof(float), &place->error) : NULL;
    struct values *received = part ? device_allocate(device, place->row->count * sizeof(float), &place->error) : NULL;
    const bool good = queue && received && shard_wire_create(&wire, &settings, &place->error)
                   && add_turns(place, device, wire, queue, part, received);
    if (!good)
        place->group.abandon(place->group.self, &place->error);
    queue_free(queue);
    shard_wire_free(wire);
    device_release(device, part);
    device_release(device, received);
    device_close(device);
    return NULL;
}

// One part after the other.
static void slow_sum(const struct row *row, uint32_t rank, uint32_t turn, unsigned char *sum)
{
    struct error error = { 0 };
    struct device *device = device_open(row->device, &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    struct values *all = device_allocate(device, row->count * sizeof(float), &error);
    struct values *part = device_allocate(device, row->count * sizeof(float), &error);
    assert_good(queue && all && part, error);
    kernel_fill_normal(queue, all, 1, key_of(row->first[rank], turn), 0, row->count);
    for (uint32_t place = row->first[rank] + 1; place < row->first[rank + 1]; place++) {
        kernel_fill_normal(queue, part, 1, key_of(place, turn), 0, row->count);
        kernel_add(queue, all, all, part, row->count);
    }
    queue_download(queue, sum, all, row->count * precision_bytes(device_precision(device)));
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    device_release(device, all);
    device_release(device, part);
    device_close(device);
}

// Share by share what its member brings, or the share of member `to` that each member brings.
static void slow_gather(const struct row *row, uint32_t rank, uint32_t turn, uint32_t to, unsigned char *all)
{
    struct error error = { 0 };
    struct device *device = device_open(row->device, &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    struct values *part = device_allocate(device, row->count * sizeof(float), &error);
    assert_good(queue && part, error);
    const uint32_t members = row->first[rank + 1] - row->first[rank];
    const size_t bytes = row->count / members * precision_bytes(device_precision(device));
    for (uint32_t m = 0; m < members; m++) {
        kernel_fill_normal(queue, part, 1, key_of(row->first[rank] + m, turn), 0, row->count);
        queue_download(queue, all + m * bytes, (char *)part + (row->meet == MEET_ALL_TO_ALL ? to : m) * bytes, bytes);
        assert_good(queue_wait(queue, &error), error);
    }
    queue_free(queue);
    device_release(device, part);
    device_close(device);
}

static void expect(const struct place *place, uint32_t turn, unsigned char *all, size_t bytes)
{
    const struct rank_grid *grid = &place->grid;
    const bool has_share = place->row->meet == MEET_REDUCE_SCATTER;
    const size_t own = has_share ? bytes / rank_grid_group(grid, grid->rank) : bytes;
    const size_t at = has_share ? own * (place->group.rank - grid->first[grid->rank]) : 0;
    if (place->row->meet == MEET_ALL_GATHER || place->row->meet == MEET_ALL_TO_ALL)
        slow_gather(place->row, grid->rank, turn, place->group.rank - grid->first[grid->rank], all);
    else
        slow_sum(place->row, grid->rank, turn, all);
    assert_memory_equal(place->sums[turn] + at, all + at, own);
}

static void all_get_what_they_meet_for(void **state)
{
    const struct row *row = *state;
    const uint32_t count = row->first[3];
    const size_t size = strstr(row->device, "bf16") ? 2 : sizeof(float);
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(count, 0, &error);
    assert_good(group, error);
    struct place places[MOST];
    for (uint32_t i = 0; i < count; i++) {
        places[i] = (struct place){ .row = row, .group = thread_group_member(group, i) };
        sit(&places[i]);
        for (uint32_t turn = 0; turn < TURNS; turn++)
            assert_non_null(places[i].sums[turn] = calloc(row->count, sizeof(float)));
        assert_int_equal(pthread_create(&places[i].thread, NULL, add_up, &places[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(places[i].thread, NULL);
    unsigned char *sum = calloc(row->count, sizeof(float));
    assert_non_null(sum);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            assert_good(places[i].error.kind == ERROR_NONE, places[i].error);
            expect(&places[i], turn, sum, row->count * size);
            free(places[i].sums[turn]);
        }
    free(sum);
    thread_group_free(group);
}

// What it needs of another place, without opening a wire.
static void *name_nothing(void *argument)
{
    struct place *place = argument;
    struct communicator_name own = { { 0 } }, all[2];
    place->group.all_gather(place->group.self, &own, sizeof own, all, &place->error);
    return NULL;
}

static void nobody_waits_past_the_deadline(void **state)
{
    (void)state;
    static const struct row row = { .device = "cpu:queued", .first = { 0, 2, 2, 2 }, .count = 10 };
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(2, 0, &error);
    assert_good(group, error);
    struct place places[2];
    for (uint32_t i = 0; i < 2; i++) {
        places[i] = (struct place){ .row = &row, .group = thread_group_member(group, i) };
        sit(&places[i]);
    }
    struct device *device = device_open(row.device, &error);
    assert_good(device, error);
    const struct shard_wire_settings settings = { .grid = &places[0].grid, .device = device, .most_bytes = 40,
                                                  .deadline_ns = 20000000 };
    struct shard_wire *wire;
    assert_int_equal(pthread_create(&places[1].thread, NULL, name_nothing, &places[1]), 0);
    assert_false(shard_wire_create(&wire, &settings, &error));
    assert_error(error, "rank 0: device 0 of its group waits for the others of 2 since 20.0 ms");
    assert_null(wire);
    pthread_join(places[1].thread, NULL);
    device_close(device);
    thread_group_free(group);
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
        TEST_ROW(all_get_what_they_meet_for, &rows[13]),
        cmocka_unit_test(nobody_waits_past_the_deadline),
    };
    return cmocka_run_group_tests_name("shard_wire", tests, NULL, NULL);
}
