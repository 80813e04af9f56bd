// Ranks that are threads: what each brings, all get; who fails, fails all.
#include "runtime/groups/thread_group.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "tests/test.h"

enum { MOST_RANKS = 7, MOST_BYTES = 3000 };

struct member {
    struct process_group group;
    uint32_t ranks;
    uint64_t seed, rounds;
    pthread_t thread;
    struct error error;
    bool is_wrong;
};

static struct member *members_of(struct thread_group *group, uint32_t ranks)
{
    struct member *members = calloc(ranks, sizeof *members);
    assert_non_null(members);
    for (uint32_t rank = 0; rank < ranks; rank++)
        members[rank] = (struct member){ .group = thread_group_member(group, rank), .ranks = ranks };
    return members;
}

static void run(struct member *members, void *(*does)(void *member))
{
    for (uint32_t rank = 0; rank < members->ranks; rank++)
        assert_int_equal(pthread_create(&members[rank].thread, NULL, does, &members[rank]), 0);
    for (uint32_t rank = 0; rank < members->ranks; rank++)
        pthread_join(members[rank].thread, NULL);
}

static void fill(unsigned char *data, uint64_t bytes, uint64_t round, uint32_t rank)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(31 * round + 7 * rank + i);
}

// Rounds of sizes that all draw alike; who is late is drawn by each.
static void *pass_rounds(void *argument)
{
    struct member *member = argument;
    const struct process_group *group = &member->group;
    uint64_t sizes = member->seed, own = member->seed + group->rank + 1;
    for (uint64_t round = 0; round < member->rounds && !member->is_wrong; round++) {
        unsigned char mine[MOST_BYTES], all[MOST_RANKS * MOST_BYTES], expected[MOST_BYTES];
        const uint64_t bytes = random_below(&sizes, MOST_BYTES), from = random_below(&sizes, member->ranks);
        if (random_below(&own, 4) == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        fill(mine, bytes, round, group->rank);
        member->is_wrong = !group->all_gather(group->self, mine, bytes, all, &member->error);
        for (uint32_t rank = 0; rank < member->ranks; rank++) {
            fill(expected, bytes, round, rank);
            member->is_wrong |= memcmp(expected, all + rank * bytes, bytes) != 0;
        }
        member->is_wrong |= !group->broadcast(group->self, (uint32_t)from, mine, bytes, &member->error);
        fill(expected, bytes, round, (uint32_t)from);
        member->is_wrong |= memcmp(expected, mine, bytes) != 0;
    }
    return NULL;
}

static void what_each_rank_brings_all_ranks_get(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(20, 400); trial++) {
        struct error error = { 0 };
        uint64_t seed = trial;
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, MOST_RANKS);
        struct thread_group *group = thread_group_create(ranks, 0, &error);
        assert_good(group, error);
        struct member *members = members_of(group, ranks);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            members[rank].seed = trial;
            members[rank].rounds = 20;
        }
        run(members, pass_rounds);
        for (uint32_t rank = 0; rank < ranks; rank++)
            if (members[rank].is_wrong)
                fail_msg("trial %u, rank %u: %s", (unsigned)trial, rank, members[rank].error.text);
        free(members);
        thread_group_free(group);
    }
}

static void *wait_for_rank_1(void *argument)
{
    struct member *member = argument;
    const struct process_group *group = &member->group;
    struct error reason = { 0 };
    error_set_kind(&reason, ERROR_MACHINE, "rank 1 broke");
    if (group->rank == 1)
        group->abandon(group->self, &reason);
    else
        member->is_wrong = group->all_gather(group->self, NULL, 0, NULL, &member->error);
    return NULL;
}

static void who_waits_learns_of_the_first_failure(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(3, 0, &error);
    assert_good(group, error);
    struct member *members = members_of(group, 3);
    run(members, wait_for_rank_1);
    for (uint32_t rank = 0; rank < 3; rank += 2) {
        assert_false(members[rank].is_wrong);
        assert_error(members[rank].error, "rank 1 broke");
        assert_int_equal(members[rank].error.kind, ERROR_MACHINE);
    }
    assert_false(members[1].group.is_well(members[1].group.self, &error));
    assert_error(error, "rank 1 broke");
    free(members);
    thread_group_free(group);
}

static void *stay_away_as_rank_2(void *argument)
{
    struct member *member = argument;
    const struct process_group *group = &member->group;
    if (group->rank != 2)
        member->is_wrong = group->all_gather(group->self, NULL, 0, NULL, &member->error);
    return NULL;
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(3, 20000000, &error);
    assert_good(group, error);
    struct member *members = members_of(group, 3);
    run(members, stay_away_as_rank_2);
    assert_false(members[0].is_wrong || members[1].is_wrong);
    assert_error(members[1].error, members[0].error.text);
    // The slower of the two may not have come itself within so short a time.
    assert_non_null(strstr(members[0].error.text, "did not come to the other ranks within 20.0 ms"));
    free(members);
    thread_group_free(group);
}

static void a_rank_that_is_missed_is_told_so_when_it_comes(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct thread_group *group = thread_group_create(2, 1000000, &error);
    assert_good(group, error);
    const struct process_group first = thread_group_member(group, 0), second = thread_group_member(group, 1);
    unsigned char all[8] = { 0 };
    assert_false(first.all_gather(first.self, all, 4, all, &error));  // alone: it misses the other
    assert_error(error, "rank 1 did not come to the other ranks within 1.00 ms");
    assert_false(second.all_gather(second.self, all, 4, all, &error));
    assert_error(error, "rank 1 did not come to the other ranks within 1.00 ms");
    thread_group_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_each_rank_brings_all_ranks_get),
        cmocka_unit_test(who_waits_learns_of_the_first_failure),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_rank_that_is_missed_is_told_so_when_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
