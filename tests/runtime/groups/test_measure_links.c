// The links between ranks by messages there and back: all ranks get the costs of all
// links, and a rank that does not come, or fails, is told. Every rank is a thread with a
// device of its own, whose communicators promise no more than NCCL's.
#include "runtime/groups/measure_links.h"

#include <poll.h>
#include <pthread.h>

#include "device/communicator.h"
#include "runtime/groups/thread_group.h"
#include "tests/test.h"

enum { MOST_RANKS = 4 };
static const uint64_t sizes[LINK_LEAST_SIZES] = { 256, 1024, 4096, 16384, 65536, 262144 };

struct member {
    struct process_group group;
    const char *device;
    const struct link_settings *settings;
    struct link_cost to_next[MOST_RANKS];
    pthread_t thread;
    bool good, is_stuck;
    struct error error;
};

static void *measure(void *argument)
{
    struct member *member = argument;
    struct device *device = device_open(member->device, &member->error);
    member->good = device && measure_links(device, &member->group, member->settings, member->to_next,
                                           &member->is_stuck, &member->error);
    if (device)
        device_close(device);
    return NULL;
}

// Fills in the groups and runs all ranks. Freed by thread_group_free().
static struct thread_group *run(struct member *members, uint32_t ranks)
{
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(ranks, 0, &error);
    assert_good(group, error);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        members[rank].group = thread_group_member(group, rank);
        assert_int_equal(pthread_create(&members[rank].thread, NULL, measure, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pthread_join(members[rank].thread, NULL);
        assert_false(members[rank].is_stuck);
    }
    return group;
}

static void count_link(void *self, size_t done, size_t all)
{
    size_t *counted = self;
    assert_int_equal(done, ++*counted);
    assert_int_equal(all, MOST_RANKS - 1);
}

static void all_ranks_get_the_costs_of_all_links(void **state)
{
    (void)state;
    size_t counted = 0;
    const struct measure_options quiet = { .repeats = 3 },
                                 counting = { .repeats = 3, .progress = count_link, .self = &counted };
    const struct link_settings settings = { .options = &quiet, .sizes = sizes, .size_count = LINK_LEAST_SIZES };
    struct link_settings of_first = settings;
    of_first.options = &counting;
    struct member members[MOST_RANKS];
    for (uint32_t rank = 0; rank < MOST_RANKS; rank++)
        members[rank] = (struct member){ .device = "cpu:queued", .settings = rank == 0 ? &of_first : &settings };
    struct thread_group *group = run(members, MOST_RANKS);
    for (uint32_t rank = 0; rank < MOST_RANKS; rank++) {
        assert_good(members[rank].good, members[rank].error);
        for (uint32_t link = 0; link + 1 < MOST_RANKS; link++) {
            assert_true(members[rank].to_next[link].bytes_per_second > 0);
            assert_memory_equal(&members[rank].to_next[link], &members[0].to_next[link], sizeof(struct link_cost));
        }
    }
    assert_int_equal(counted, MOST_RANKS - 1);
    thread_group_free(group);
}

static void a_device_without_communicators_is_told_to_all(void **state)
{
    (void)state;
    const struct measure_options options = { .repeats = 3 };
    const struct link_settings settings = { .options = &options, .sizes = sizes, .size_count = LINK_LEAST_SIZES };
    struct member members[3] = { { .device = "cpu:queued", .settings = &settings },
                                 { .device = "cpu", .settings = &settings },
                                 { .device = "cpu:queued", .settings = &settings } };
    struct thread_group *group = run(members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_false(members[rank].good);
        assert_error(members[rank].error, "the link between rank 0 and rank 1: device cpu has nothing that sends to other ranks "
                                            "(cuda has, by NCCL)");
    }
    thread_group_free(group);
}

// Opens the other end, and sends and receives nothing until the first has failed.
static void *be_silent(void *argument)
{
    struct member *member = argument;
    struct process_group *group = &member->group;
    struct communicator_name name;
    struct device *device = device_open(member->device, &member->error);
    struct communicator *communicator
        = device && group->broadcast(group->self, 0, &name, sizeof name, &member->error)
              ? communicator_open(device, &name, 2, 1, &member->error) : NULL;
    while (communicator && group->is_well(group->self, &member->error))
        poll(NULL, 0, 1);
    communicator_close(communicator);
    device_close(device);
    return NULL;
}

static void a_link_over_which_nothing_comes_ends_by_its_deadline(void **state)
{
    (void)state;
    static const char said[] = "the link between rank 0 and rank 1: 256 bytes: nothing came within 2.00 s";
    const struct measure_options options = { .repeats = 1 };
    const struct link_settings settings = { .options = &options, .sizes = sizes, .size_count = LINK_LEAST_SIZES,
                                            .deadline_ns = 2000000000 };
    struct member members[2] = { { .device = "cpu:queued", .settings = &settings },
                                 { .device = "cpu:queued", .settings = &settings } };
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(2, 0, &error);
    assert_good(group, error);
    for (uint32_t rank = 0; rank < 2; rank++) {
        members[rank].group = thread_group_member(group, rank);
        assert_int_equal(pthread_create(&members[rank].thread, NULL, rank == 0 ? measure : be_silent, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        pthread_join(members[rank].thread, NULL);
        assert_false(members[rank].good || members[rank].is_stuck);
        assert_error(members[rank].error, said);
    }
    thread_group_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_costs_of_all_links),
        cmocka_unit_test(a_device_without_communicators_is_told_to_all),
        cmocka_unit_test(a_link_over_which_nothing_comes_ends_by_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
