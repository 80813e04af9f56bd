#include "runtime/groups/processes/joining.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/groups/processes/frames.h"
#include "tests/processes.h"

#define OUR_SECRET "everybody in this test knows it"

// Sleeps on, whatever signal comes.
static void sleep_ns(uint64_t ns)
{
    const uint64_t until = clock_now_ns() + ns;
    for (uint64_t now; (now = clock_now_ns()) < until;)
        usleep((useconds_t)min_u64((until - now) / 1000 + 1, 100000));
}

// Rank 0 listens, and has said so.
static void await_file(const struct world *world)
{
    while (access(world->launch.file, F_OK) != 0)
        usleep(1000);
}

// What is said while ranks wait, kept by each process for itself.
static struct {
    char first[600];
    unsigned count;
} told;

static void keep(void *self, const char *sentence)
{
    (void)self;
    if (told.count++ == 0)
        snprintf(told.first, sizeof told.first, "%s", sentence);
}

static struct control_settings often_told(void)
{
    return (struct control_settings){ .deadline_ns = 2 * second_ns, .telling_ns = second_ns / 4, .tell = keep };
}

// --- who comes late ------------------------------------------------------------------------------

// The last comes long after rank 0 would be taken for dead if it said nothing while it waits. On a busy machine what it
// says may come seconds late.
static void ranks_may_start_far_apart(void **state)
{
    (void)state;
    struct world world = world_of(4, exchanges);
    world.settings.silence_ns = 8 * second_ns;
    start(&world, 2);
    sleep_ns(second_ns / 5);
    start(&world, 0);
    start(&world, 1);
    sleep_ns(19 * second_ns / 2);
    start(&world, 3);
    end_all(&world, NOBODY);
}

// The same as it is, with nothing set: each rank at its own time within four minutes.
static void ranks_may_start_four_minutes_apart(void **state)
{
    (void)state;
    if (test_trials(0, 1) == 0)
        TEST_SKIP("takes four minutes: only under scons soak");
    static const unsigned at_seconds[] = { 35, 70, 0, 240 };
    struct world world = world_of(4, exchanges);
    world.settings = (struct control_settings){ 0 };
    for (unsigned second = 0; second <= 240; second++) {
        for (uint32_t rank = 0; rank < 4; rank++)
            if (at_seconds[rank] == second)
                start(&world, rank);
        sleep_ns(second < 240 ? second_ns : 0);
    }
    end_all(&world, NOBODY);
}

static void ranks_start_in_any_order(void **state)
{
    (void)state;
    for (unsigned trial = 0; trial < test_trials(10, 200); trial++) {
        uint64_t seed = trial;
        struct world world = world_of(MOST_RANKS, exchanges);
        world.trial = trial;
        uint32_t order[MOST_RANKS];
        for (uint32_t i = 0; i < MOST_RANKS; i++) {
            const uint32_t at = (uint32_t)(random_next(&seed) % (i + 1));
            order[i] = order[at];
            order[at] = i;
        }
        for (uint32_t i = 0; i < MOST_RANKS; i++) {
            start(&world, order[i]);
            sleep_ns(random_next(&seed) % (second_ns / 20));
        }
        end_all(&world, NOBODY);
    }
}

// For longer than anybody's patience: who has come in between tries again, and nobody takes the first try for him.
static void rank_0_may_be_slow(void **state)
{
    (void)state;
    struct world world = world_of(3, exchanges);
    world.settings.patience_ns = second_ns;
    start(&world, 0);
    await_file(&world);
    assert_int_equal(kill(world.children[0], SIGSTOP), 0);
    start(&world, 1);
    start(&world, 2);
    sleep_ns(9 * second_ns / 2);
    assert_int_equal(kill(world.children[0], SIGCONT), 0);
    end_all(&world, NOBODY);
}

static void who_comes_may_be_slow(void **state)
{
    (void)state;
    struct world world = world_of(3, exchanges);
    world.settings.patience_ns = second_ns / 2;
    start(&world, 1);
    usleep(20000);  // in the middle of something, which may be anything
    assert_int_equal(kill(world.children[1], SIGSTOP), 0);
    start(&world, 0);
    start(&world, 2);
    sleep_ns(2 * second_ns);
    assert_int_equal(kill(world.children[1], SIGCONT), 0);
    end_all(&world, NOBODY);
}

static void silent_connections_keep_nobody_waiting(void **state)
{
    (void)state;
    struct world world = world_of(3, exchanges);
    int silent[5];
    meet_at_port(&world, OUR_SECRET);
    world.settings.patience_ns = 50 * second_ns;
    world.settings.deadline_ns = 40 * second_ns;
    start(&world, 0);
    for (size_t i = 0; i < 5; i++)
        silent[i] = connect_to_port(INADDR_LOOPBACK, world.launch.port);
    start(&world, 1);
    start(&world, 2);
    end_all(&world, NOBODY);
    for (size_t i = 0; i < 5; i++)
        close(silent[i]);
}

// --- what is said meanwhile ------------------------------------------------------------------------

static int heard_who_is_missing(struct control *control, uint32_t rank, const struct error *error)
{
    static const char expected[] = "rank 0 waits for ranks 1, 2, 3, 4 and 5 (1 of 6 have come), since ";
    EXPECT(!control && error->kind == ERROR_MACHINE);
    EXPECT(strcmp(error->text, "1 of 6 ranks have come, and ranks 1, 2, 3, 4 and 5 have not: were they started, and "
                               "can they reach rank 0?") == 0);
    EXPECT(told.count >= 2);
    EXPECT(strncmp(told.first, expected, strlen(expected)) == 0 && strstr(told.first, " and for "));
    return 0;
}

static void who_is_missing_is_told_again_and_again(void **state)
{
    (void)state;
    struct world world = world_of(6, heard_who_is_missing);
    world.settings = often_told();
    start(&world, 0);
    end(&world, 0, false);
}

static int heard_that_rank_0_is_missing(struct control *control, uint32_t rank, const struct error *error)
{
    static const char expected[] = "rank 1 waits for rank 0 (nobody wrote where it listens), since ";
    EXPECT(!control && told.count >= 2 && strncmp(told.first, expected, strlen(expected)) == 0);
    return 0;
}

static void so_is_rank_0(void **state)
{
    (void)state;
    struct world world = world_of(2, heard_that_rank_0_is_missing);
    world.settings = often_told();
    start(&world, 1);
    end(&world, 1, false);
}

static int hears_of_rank_1(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE && strncmp(error->text, "rank 1 (process ", 16) == 0);
    EXPECT(strstr(error->text, ") ended without a word: it was killed, or it crashed"));
    return 0;
}

// Long before the deadline; rank 2 never comes.
static void who_has_come_and_is_killed_is_named_at_once(void **state)
{
    (void)state;
    struct world world = world_of(4, hears_of_rank_1);
    world.settings = (struct control_settings){ .deadline_ns = 500 * second_ns, .telling_ns = second_ns / 10 };
    start(&world, 0);
    start(&world, 3);
    start(&world, 1);
    sleep_ns(2 * second_ns);  // most likely it has come by then; if not, nothing else happens but that it is waited for
    kill(world.children[1], SIGKILL);
    end(&world, 1, true);
    end(&world, 0, false);
    end(&world, 3, false);
}

// --- who does not know the secret, or does not fit -----------------------------------------------------

static int is_kept_out(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE);
    if (rank == 0) {
        EXPECT(strncmp(error->text, "1 of 2 ranks have come, and rank 1 has not: was it started, and can it reach rank "
                                    "0? (", 86) == 0);
        EXPECT(strstr(error->text, " who came did not know this run's secret: is WEIR_SECRET the same for all?)"));
    } else {
        EXPECT(strstr(error->text, " does not know this rank: is WEIR_SECRET the same for all, and is it rank 0 of "
                                   "this run?)"));
    }
    return 0;
}

static void another_secret_is_no_way_in(void **state)
{
    (void)state;
    struct world world = world_of(2, is_kept_out);
    meet_at_port(&world, OUR_SECRET);
    world.settings.deadline_ns = 5 * second_ns;
    start(&world, 0);
    strcpy(world.launch.secret, "nobody in this test knows this");
    world.settings.deadline_ns = 2 * second_ns;
    start(&world, 1);
    end_all(&world, NOBODY);
}

static int lacks_the_secret(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE);
    EXPECT(rank == 0 || strcmp(error->text, "rank 1 cannot reach rank 0 (it was started with WEIR_SECRET, and this "
                                            "rank without it: give all ranks the same)") == 0);
    return 0;
}

static void a_file_tells_no_secret_that_was_given(void **state)
{
    (void)state;
    struct world world = world_of(2, lacks_the_secret);
    strcpy(world.launch.secret, OUR_SECRET);
    world.settings.deadline_ns = 3 * second_ns;
    start(&world, 0);
    await_file(&world);
    world.launch.secret[0] = '\0';
    world.settings.deadline_ns = second_ns;
    start(&world, 1);
    end_all(&world, NOBODY);
}

static int is_one_too_many(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_INPUT && strncmp(error->text, "two processes came as rank 1: ", 30) == 0);
    return 0;
}

static void two_that_come_as_the_same_rank_end_it(void **state)
{
    (void)state;
    struct world world = world_of(3, is_one_too_many);
    start(&world, 0);
    start(&world, 1);
    const pid_t first = world.children[1];
    start(&world, 1);
    end(&world, 0, false);
    end(&world, 1, false);
    world.children[1] = first;
    end(&world, 1, false);
}

static int was_told_of_others(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_INPUT);
    EXPECT(strcmp(error->text, "rank 1 was told that there are 2 ranks, and rank 0 that there are 3") == 0);
    return 0;
}

static void ranks_that_count_differently_say_so(void **state)
{
    (void)state;
    struct world world = world_of(3, was_told_of_others);
    start(&world, 0);
    world.launch.ranks = 2;
    start(&world, 1);
    end(&world, 0, false);
    end(&world, 1, false);
}

// --- a rank played by the test ------------------------------------------------------------------------------

// Says hello as rank 1 of two.
static int greet_as_rank_1(const struct world *world, struct handshake *said)
{
    struct error error = { 0 };
    struct secret secret;
    const int rank = connect_to_port(INADDR_LOOPBACK, world->launch.port);
    *said = (struct handshake){ .port = world->launch.port };
    secret_from_text(&secret, OUR_SECRET);
    assert_true(socket_read(rank, &said->challenge, sizeof said->challenge) && handshake_is_challenged(said));
    assert_good(handshake_hello(said, &secret, 1, 2, &error), error);
    assert_true(socket_write(rank, &said->hello, sizeof said->hello));
    return rank;
}

// And has been told that it is welcome.
static int come_as_rank_1(const struct world *world)
{
    struct secret secret;
    struct handshake said;
    const int rank = greet_as_rank_1(world, &said);
    secret_from_text(&secret, OUR_SECRET);
    assert_true(socket_read(rank, &said.answer, sizeof said.answer) && handshake_is_answered(&said, &secret));
    assert_true(said.answer.is_welcome);
    return rank;
}

static int meets(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(control && error->kind == ERROR_NONE);
    return 0;
}

// For longer than anybody's patience with strangers.
static void who_is_welcome_may_be_slow_to_come(void **state)
{
    (void)state;
    struct world world = world_of(2, meets);
    world.settings.patience_ns = second_ns / 10;
    meet_at_port(&world, OUR_SECRET);
    start(&world, 0);
    const int rank = come_as_rank_1(&world);
    sleep_ns(second_ns);
    const struct frame nothing = { .kind = FRAME_BRING, .from = 1 };
    assert_true(frame_write(rank, nothing, NULL));
    end(&world, 0, false);
    close(rank);
}

// Its patience may have ended while rank 0 stood still, which then finds a good hello on a connection that has ended.
static void who_gives_up_may_come_again(void **state)
{
    (void)state;
    struct world world = world_of(2, meets);
    struct handshake said;
    meet_at_port(&world, OUR_SECRET);
    start(&world, 0);
    for (int tries = 0; tries < 3; tries++)
        close(greet_as_rank_1(&world, &said));
    sleep_ns(second_ns / 2);  // most likely all three are heard
    const int rank = come_as_rank_1(&world);
    const struct frame nothing = { .kind = FRAME_BRING, .from = 1 };
    assert_true(frame_write(rank, nothing, NULL));
    end(&world, 0, false);
    close(rank);
}

static int hears_what_can_be_shown(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE && strcmp(error->text, "rank 1: ?[2J out of paper") == 0);
    return 0;
}

// Nor does a kind of error that there is not.
static void what_a_rank_says_commands_no_terminal(void **state)
{
    (void)state;
    struct world world = world_of(2, hears_what_can_be_shown);
    struct error error = { .kind = (enum error_kind)77, .text = "rank 1: \x1b[2J out of paper" };
    meet_at_port(&world, OUR_SECRET);
    start(&world, 0);
    const int rank = come_as_rank_1(&world);
    assert_true(frame_write(rank, (struct frame){ .kind = FRAME_FAIL, .from = 1, .bytes = sizeof error }, &error));
    end(&world, 0, false);
    close(rank);
}

static int finds_it_impossible(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_MACHINE);
    EXPECT(strstr(error->text, " sent what nobody understands: its connection is lost"));
    return 0;
}

static void a_frame_is_no_larger_than_its_kind_or_the_machine(void **state)
{
    (void)state;
    static const struct frame impossible[] = {
        { .kind = FRAME_BRING, .from = 1, .bytes = (uint64_t)1 << 60 }, { .kind = FRAME_LINE, .from = 1, .bytes = 9 },
        { .kind = FRAME_FAIL, .from = 1, .bytes = 1 << 20 }, { .kind = FRAME_GOODBYE, .from = 1, .bytes = 1 },
        { .kind = FRAME_ALL, .from = 1 }, { .kind = 99, .from = 1 },
    };
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        struct world world = world_of(2, finds_it_impossible);
        world.trial = (unsigned)i;
        meet_at_port(&world, OUR_SECRET);
        start(&world, 0);
        const int rank = come_as_rank_1(&world);
        assert_true(socket_write(rank, &impossible[i], sizeof impossible[i]));
        end(&world, 0, false);
        close(rank);
    }
}

// --- where it is held ------------------------------------------------------------------------------------

static void rank_0_listens_to_its_own_machine_alone(void **state)
{
    (void)state;
    struct world world = world_of(2, exchanges);
    meet_at_port(&world, OUR_SECRET);
    start(&world, 0);
    close(connect_to_port(INADDR_LOOPBACK, world.launch.port));
    // Every address 127.x.y.z is this machine's, and reaches what listens on all of them.
    const struct sockaddr_in other = { .sin_family = AF_INET, .sin_port = htons(world.launch.port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1) };
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(stranger, (const struct sockaddr *)&other, sizeof other), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(stranger);
    start(&world, 1);
    end_all(&world, NOBODY);
}

static void ranks_of_several_machines_reach_it(void **state)
{
    (void)state;
    struct world world = world_of(2, exchanges);
    meet_at_port(&world, OUR_SECRET);
    world.launch.is_spread = true;
    start(&world, 0);
    close(connect_to_port(INADDR_LOOPBACK + 1, world.launch.port));
    start(&world, 1);
    end_all(&world, NOBODY);
}

static int is_refused(struct control *control, uint32_t rank, const struct error *error)
{
    EXPECT(!control && error->kind == ERROR_INPUT);
    EXPECT(strstr(error->text, ": this is no meeting place that Weir has made"));
    return 0;
}

static void a_plan_is_no_meeting_place(void **state)
{
    (void)state;
    struct world world = world_of(2, is_refused);
    FILE *plan = fopen(world.launch.file, "w");
    assert_non_null(plan);
    fputs("{\"format\": \"plan\"}\n", plan);
    fclose(plan);
    start_all(&world);
    end_all(&world, NOBODY);
    assert_int_equal(access(world.launch.file, F_OK), 0);
    unlink(world.launch.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_may_start_far_apart),
        cmocka_unit_test(ranks_may_start_four_minutes_apart),
        cmocka_unit_test(ranks_start_in_any_order),
        cmocka_unit_test(rank_0_may_be_slow),
        cmocka_unit_test(who_comes_may_be_slow),
        cmocka_unit_test(silent_connections_keep_nobody_waiting),
        cmocka_unit_test(who_is_missing_is_told_again_and_again),
        cmocka_unit_test(so_is_rank_0),
        cmocka_unit_test(who_has_come_and_is_killed_is_named_at_once),
        cmocka_unit_test(another_secret_is_no_way_in),
        cmocka_unit_test(a_file_tells_no_secret_that_was_given),
        cmocka_unit_test(two_that_come_as_the_same_rank_end_it),
        cmocka_unit_test(ranks_that_count_differently_say_so),
        cmocka_unit_test(who_is_welcome_may_be_slow_to_come),
        cmocka_unit_test(who_gives_up_may_come_again),
        cmocka_unit_test(what_a_rank_says_commands_no_terminal),
        cmocka_unit_test(a_frame_is_no_larger_than_its_kind_or_the_machine),
        cmocka_unit_test(rank_0_listens_to_its_own_machine_alone),
        cmocka_unit_test(ranks_of_several_machines_reach_it),
        cmocka_unit_test(a_plan_is_no_meeting_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
