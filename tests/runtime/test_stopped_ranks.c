// A rank is stopped (SIGSTOP) at a random moment while messages move: all others end, and name it. Processes are real
// here, each a fork() of the test. Several runs go side by side, since one whose rank is stopped mostly waits.
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "runtime/groups/processes/control.h"
#include "runtime/run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/runtime/synthetic.h"
#include "tests/test.h"

enum { RANKS = 3, SIDE_BY_SIDE = 8 };
static const uint64_t second_ns = 1000000000;

// After which silence a rank is taken for dead, by rank 0; the others wait a little longer, each more than the one
// before it, so that the wire to one that gave up breaks before the reason is heard. And what all waits together may
// take, however busy the machine is: who takes longer waits for ever.
static const uint64_t silence_ns = 5 * second_ns, longer_ns = second_ns / 4, patience_ns = 120 * second_ns;

struct rank {
    pid_t process;  // 0: has ended, or was ended
    _Atomic uint64_t steps;
    struct error error;  // that it ended with
};

struct trial {
    uint64_t number;
    const char *device;
    uint32_t stopped;
    uint64_t until_ns;
    struct rank *ranks;  // in memory that all processes share
};

// --- a rank ---------------------------------------------------------------------------------

static void step_until_it_fails(struct rank *own, struct control *control, struct device *device)
{
    const struct cost_row row = { .output_bytes = 300000, .kept_forward_bytes = 300000, .kept_weight_bytes = 512,
                                  .transient_bytes = 768, .version_bytes = 1280 };
    const struct cost_row rows[RANKS] = { row, row, row };
    struct synthetic synthetic[RANKS];
    struct stage stages[RANKS];
    const struct process_group group = control_group(control);
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f }, .group = &group };
    for (uint32_t stage = 0; stage < RANKS; stage++) {
        synthetic[stage] = synthetic_from_costs(rows, RANKS, stage);
        stages[stage] = synthetic_stage(&synthetic[stage]);
    }
    struct schedule *order = schedule_generate("1f1b", RANKS, 0, 6, &own->error);
    struct schedule *lowered = order ? schedule_lower(order, &own->error) : NULL;
    struct session *session = lowered ? session_create(lowered, stages, device, &settings, &own->error) : NULL;
    while (session && session_step(session, &own->error))
        atomic_fetch_add(&own->steps, 1);
    session_free(session);
    schedule_free(lowered);
    schedule_free(order);
}

static void be_rank(const struct trial *trial, uint32_t rank)
{
    struct rank *own = &trial->ranks[rank];
    const struct control_settings settings = { .deadline_ns = patience_ns, .silence_ns = silence_ns + rank * longer_ns };
    struct launch launch = { .by = "a test", .rank = rank, .ranks = RANKS, .local_rank = rank, .local_ranks = RANKS };
    snprintf(launch.file, sizeof launch.file, "%s/weir-stopped-%d-%llu", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (int)getppid(), (unsigned long long)trial->number);
    struct control *control = control_open(&launch, &settings, &own->error);
    struct device *device = control ? device_open(trial->device, &own->error) : NULL;
    if (device)
        step_until_it_fails(own, control, device);
    device_close(device);
    control_close(control);
    _exit((int)own->error.kind);
}

// --- a run ----------------------------------------------------------------------------------

static void start(struct trial *trial)
{
    const size_t bytes = RANKS * sizeof *trial->ranks;
    trial->ranks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(trial->ranks != MAP_FAILED);
    trial->until_ns = clock_now_ns() + patience_ns;
    fflush(NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0)
            be_rank(trial, rank);
        trial->ranks[rank].process = process;
    }
}

// In the middle of a step that is not the first.
static void stop_one(struct trial *trial)
{
    uint64_t seed = trial->number;
    trial->stopped = (uint32_t)random_below(&seed, RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        while (atomic_load(&trial->ranks[rank].steps) == 0 && clock_now_ns() < trial->until_ns)
            usleep(1000);
    usleep((useconds_t)random_below(&seed, 20000));
    assert_int_equal(kill(trial->ranks[trial->stopped].process, SIGSTOP), 0);
}

// Whether it has ended in time; who has not is ended.
static bool await_end(struct trial *trial, uint32_t rank)
{
    struct rank *of = &trial->ranks[rank];
    int status;
    pid_t ended = 0;
    while (rank != trial->stopped && (ended = waitpid(of->process, &status, WNOHANG)) == 0
           && clock_now_ns() < trial->until_ns)
        usleep(10000);
    if (ended == 0) {
        kill(of->process, SIGKILL);
        waitpid(of->process, &status, 0);
    }
    return ended == of->process && WIFEXITED(status) && WEXITSTATUS(status) == ERROR_MACHINE;
}

// How many of the others did not end, or did not name who was stopped.
static unsigned judge(struct trial *trial)
{
    char name[40];
    unsigned wrong = 0;
    snprintf(name, sizeof name, "rank %u (process %d on ", trial->stopped, (int)trial->ranks[trial->stopped].process);
    for (uint32_t at = 0; at < RANKS; at++) {
        const uint32_t rank = (trial->stopped + 1 + at) % RANKS;  // who was stopped comes last
        if (await_end(trial, rank) || rank == trial->stopped) {
            if (rank == trial->stopped || strstr(trial->ranks[rank].error.text, name))
                continue;
        }
        wrong++;
        print_message("trial %llu: rank %u was stopped in its step %llu, and rank %u %s\n",
                      (unsigned long long)trial->number, trial->stopped,
                      (unsigned long long)atomic_load(&trial->ranks[trial->stopped].steps), rank,
                      trial->ranks[rank].error.text[0] ? trial->ranks[rank].error.text : "did not end");
    }
    munmap(trial->ranks, RANKS * sizeof *trial->ranks);
    return wrong;
}

static void others_end_and_name_who_was_stopped(void **state)
{
    const char *device = *state;
    const uint64_t trials = test_trials(4, 500);
    unsigned wrong = 0;
    for (uint64_t first = 0; first < trials; first += SIDE_BY_SIDE) {
        struct trial all[SIDE_BY_SIDE];
        const size_t count = trials - first < SIDE_BY_SIDE ? trials - first : SIDE_BY_SIDE;
        for (size_t i = 0; i < count; i++) {
            all[i] = (struct trial){ .number = first + i, .device = device };
            start(&all[i]);
            stop_one(&all[i]);
        }
        for (size_t i = 0; i < count; i++)
            wrong += judge(&all[i]);
    }
    if (wrong > 0)
        fail_msg("%u ranks in %llu runs did not end, or did not name who was stopped", wrong,
                 (unsigned long long)trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        { "others_end_and_name_who_was_stopped", others_end_and_name_who_was_stopped, NULL, NULL, "cpu:queued" },
        { "and_where_actions_are_replayed", others_end_and_name_who_was_stopped, NULL, NULL, "cpu:queued,graphs" },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
