#include "runtime/groups/processes/control.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "tests/processes.h"

// --- meeting and exchanging -----------------------------------------------------------

static void everybody_gets_what_everybody_brings(void **state)
{
    (void)state;
    struct world world = world_of(4, exchanges);
    start_all(&world);
    end_all(&world, NOBODY);
    assert_int_not_equal(access(world.launch.file, F_OK), 0);  // nobody needs it any more
}

static void they_meet_at_a_port_too_and_a_stranger_is_sent_away(void **state)
{
    (void)state;
    struct world world = world_of(4, exchanges);
    meet_at_port(&world, "everybody in this test knows it");
    start(&world, 0);
    char hello[400] = "GET / HTTP/1.1\r\n";
    const int stranger = connect_to_port(INADDR_LOOPBACK, world.launch.port);
    assert_int_equal(send(stranger, hello, sizeof hello, 0), (ssize_t)sizeof hello);
    for (uint32_t rank = 1; rank < 4; rank++)
        start(&world, rank);
    size_t told = 0;
    for (ssize_t got; (got = recv(stranger, hello, sizeof hello, 0)) > 0; told += (size_t)got)
        ;
    assert_int_equal(told, 40);  // a challenge, as everybody gets, and no word more
    close(stranger);
    end_all(&world, NOBODY);
}

static int is_alone(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    uint64_t own = 5, all = 0;
    EXPECT(control && met->kind == ERROR_NONE);
    const struct process_group group = control_group(control);
    EXPECT(group.all_gather(group.self, &own, sizeof own, &all, error) && all == 5);
    return 0;
}

static void one_process_meets_nobody(void **state)
{
    (void)state;
    struct world world = world_of(1, is_alone);
    start_all(&world);
    end_all(&world, NOBODY);
}

static int sees_lines(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    _Atomic uint64_t *lines = control_group(control).board;
    lines[rank] = 100 + rank;
    const uint64_t until = clock_now_ns() + 30 * second_ns;
    while (clock_now_ns() < until && !(lines[0] == 100 && lines[1] == 101 && lines[2] == 102))
        usleep(10000);
    EXPECT(lines[0] == 100 && lines[1] == 101 && lines[2] == 102);
    EXPECT(meet(control, error));  // nobody leaves before all have seen
    return 0;
}

static void everybody_knows_what_everybody_does(void **state)
{
    (void)state;
    struct world world = world_of(3, sees_lines);
    start_all(&world);
    end_all(&world, NOBODY);
}

// --- refusals -----------------------------------------------------------------------------

static int misses_rank_2(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE);
    EXPECT(strcmp(error->text, "2 of 3 ranks have come, and rank 2 has not: was it started, and can it reach rank 0?")
           == 0);
    return 0;
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct world world = world_of(3, misses_rank_2);
    start(&world, 1);  // which would wait for longer than rank 0, and learns from it
    world.settings.deadline_ns = 8 * second_ns;  // enough for rank 1 to come, also on a busy machine
    start(&world, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        end(&world, rank, false);
}

static int finds_no_rank_0(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE);
    EXPECT(strcmp(error->text, "rank 1 cannot reach rank 0 (nobody wrote where it listens)") == 0);
    return 0;
}

static void a_rank_0_that_is_not_there_is_not_waited_for_forever(void **state)
{
    (void)state;
    struct world world = world_of(2, finds_no_rank_0);
    world.settings.deadline_ns = second_ns / 2;
    start(&world, 1);
    end(&world, 1, false);
}

// --- failures ---------------------------------------------------------------------------

// Until a failure is heard of; the sentence.
static bool hears(struct control *control, struct error *error)
{
    const uint64_t until = clock_now_ns() + 30 * second_ns;
    while (is_well(control, error) && clock_now_ns() < until)
        usleep(1000);
    return error->kind != ERROR_NONE;
}

static int hears_of_the_killed(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == 2)
        raise(SIGKILL);
    EXPECT(hears(control, error) && error->kind == ERROR_MACHINE);
    EXPECT(strncmp(error->text, "rank 2 (process ", 16) == 0);
    EXPECT(strstr(error->text, ") ended without a word: it was killed, or it crashed"));
    EXPECT(!meet(control, &(struct error){ 0 }));
    return 0;
}

static void all_hear_of_a_rank_that_was_killed(void **state)
{
    (void)state;
    struct world world = world_of(4, hears_of_the_killed);
    start_all(&world);
    end_all(&world, 2);
}

// Rank 0 leaves in the same moment, and may so have said goodbye before it has told everybody.
static int leaves_as_soon_as_it_hears(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == MOST_RANKS - 1)
        raise(SIGKILL);
    const uint64_t until = clock_now_ns() + 30 * second_ns;
    while (rank == 0 && is_well(control, error) && clock_now_ns() < until)
        sched_yield();
    EXPECT(hears(control, error) && strncmp(error->text, "rank 5 (process ", 16) == 0);
    return 0;
}

static void who_leaves_has_told_all_of_the_killed_before(void **state)
{
    (void)state;
    for (unsigned trial = 0; trial < test_trials(20, 1000); trial++) {
        struct world world = world_of(MOST_RANKS, leaves_as_soon_as_it_hears);
        world.trial = trial;
        start_all(&world);
        end_all(&world, MOST_RANKS - 1);
    }
}

static int hears_that_rank_0_was_killed(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == 0)
        raise(SIGKILL);
    EXPECT(hears(control, error) && strncmp(error->text, "rank 0 (process ", 16) == 0);
    return 0;
}

static void all_hear_of_rank_0_too(void **state)
{
    (void)state;
    struct world world = world_of(3, hears_that_rank_0_was_killed);
    start_all(&world);
    end_all(&world, 0);
}

static int hears_of_the_stopped(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == 1)
        raise(SIGSTOP);
    EXPECT(hears(control, error) && strncmp(error->text, "rank 1 (process ", 16) == 0);
    // Of 8 seconds, or, if it was stopped while it wrote, within a message.
    EXPECT(strstr(error->text, ": it was stopped, or its machine is gone"));
    return 0;
}

static void all_hear_of_a_rank_that_was_stopped(void **state)
{
    (void)state;
    struct world world = world_of(3, hears_of_the_stopped);
    world.settings.silence_ns = 8 * second_ns;
    start_all(&world);
    end(&world, 0, false);
    end(&world, 2, false);
    kill(world.children[1], SIGKILL);
    end(&world, 1, true);
}

static int hears_a_reason(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error, reason = { 0 };
    EXPECT(control && met->kind == ERROR_NONE);
    const struct process_group group = control_group(control);
    // All have arrived; who is slow to go on hears it here already.
    const bool has_met = meet(control, error);
    error_set_kind(&reason, ERROR_ANSWER, "rank 1: 1B3: it does not fit");
    EXPECT(has_met || rank != 1);
    if (rank == 1)
        group.abandon(group.self, &reason);
    EXPECT((!has_met || hears(control, error)) && error->kind == ERROR_ANSWER);
    EXPECT(strcmp(error->text, "rank 1: 1B3: it does not fit") == 0);
    return 0;
}

static void who_gives_up_tells_all_why(void **state)
{
    (void)state;
    struct world world = world_of(4, hears_a_reason);
    start_all(&world);
    end_all(&world, NOBODY);
}

static int leaves_early(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == 1)
        return 0;
    EXPECT(!meet(control, error));
    EXPECT(strcmp(error->text, "rank 0: rank 1 has ended, and all ranks were to meet") == 0);
    return 0;
}

static void who_has_left_is_not_waited_for(void **state)
{
    (void)state;
    struct world world = world_of(3, leaves_early);
    start_all(&world);
    end_all(&world, NOBODY);
}

static int misses_rank_0(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    if (rank == 0)
        return 0;
    EXPECT(hears(control, error) && error->kind == ERROR_MACHINE);
    EXPECT(strcmp(error->text, rank == 1 ? "rank 1: rank 0 has ended before this rank had"
                                         : "rank 2: rank 0 has ended before this rank had") == 0);
    return 0;
}

static void nobody_works_on_when_rank_0_has_left(void **state)
{
    (void)state;
    struct world world = world_of(3, misses_rank_0);
    start_all(&world);
    end_all(&world, NOBODY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_what_everybody_brings),
        cmocka_unit_test(they_meet_at_a_port_too_and_a_stranger_is_sent_away),
        cmocka_unit_test(one_process_meets_nobody),
        cmocka_unit_test(everybody_knows_what_everybody_does),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_rank_0_that_is_not_there_is_not_waited_for_forever),
        cmocka_unit_test(all_hear_of_a_rank_that_was_killed),
        cmocka_unit_test(who_leaves_has_told_all_of_the_killed_before),
        cmocka_unit_test(all_hear_of_rank_0_too),
        cmocka_unit_test(all_hear_of_a_rank_that_was_stopped),
        cmocka_unit_test(who_gives_up_tells_all_why),
        cmocka_unit_test(who_has_left_is_not_waited_for),
        cmocka_unit_test(nobody_works_on_when_rank_0_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
