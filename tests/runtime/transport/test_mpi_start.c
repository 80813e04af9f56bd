// A rank that mpirun has started is stopped (SIGSTOP) while MPI tells ranks where to meet, which none of MPI's own
// calls gives up on: all others end by the deadline, and say so.
//
// The test starts itself by mpirun: `test_mpi_start MOMENT` is a rank. Rank 1 is stopped after so many microseconds.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/plugin.h"
#include "runtime/groups/processes/control.h"
#include "tests/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED false
#endif

static const uint64_t second_ns = 1000000000;
enum { LATE = 124 };  // what timeout ends with

// --- a rank ---------------------------------------------------------------------------------

static void stop_after(useconds_t moment)
{
    const pid_t own = getpid(), stopper = fork();
    if (stopper == 0) {
        usleep(moment);
        kill(own, SIGSTOP);
        _exit(0);
    }
    if (stopper > 0 && moment == 0)
        waitpid(stopper, NULL, 0);  // before it does anything
}

// Meets the others again and again, until one is missing.
static int be_rank(useconds_t moment)
{
    struct launch launch;
    struct error error = { 0 };
    const struct control_settings settings = { .deadline_ns = 5 * second_ns, .silence_ns = 5 * second_ns };
    struct control *control = NULL;
    if (launch_from_environment(&launch, &error)) {
        if (launch.rank == 1)
            stop_after(moment);
        control = control_open(&launch, &settings, &error);
    }
    const struct process_group group = control ? control_group(control) : (struct process_group){ 0 };
    while (control && group.all_gather(group.self, NULL, 0, NULL, &error))
        usleep(1000);
    control_close(control);
    fprintf(stderr, "ends with %d: %s\n", (int)error.kind, error.text);
    return (int)error.kind;
}

// --- a run ----------------------------------------------------------------------------------

// What ranks said at their end. Whether they came to one, and failed: mpirun's own exit code is that of the rank whose
// end it hears of first, which may be the one that it ends itself.
static bool ends_when_stopped(const char *program, unsigned moment, char *said, size_t size)
{
    char command[600];
    snprintf(command, sizeof command, "timeout -k 5 120 mpirun -n 3 %s %u 2>&1", program, moment);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    const size_t length = fread(said, 1, size - 1, out);
    said[length] = '\0';
    const int status = pclose(out);
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != LATE;
}

// The seconds are those that the meeting's five have left when MPI is asked, which is late on a busy machine.
static bool gives_up_in(const char *said, const char *call)
{
    char begins[80];
    unsigned seconds;
    snprintf(begins, sizeof begins, " of 3: %s has not come to an end within ", call);
    const char *at = strstr(said, begins), *ends = " s: it waits for all ranks";
    return at && sscanf(at + strlen(begins), "%u", &seconds) == 1 && seconds <= 5
        && strncmp(at + strlen(begins) + 1, ends, strlen(ends)) == 0;
}

static const char *skip_reason(void)
{
    struct error error = { 0 };
    if (IS_SANITIZED)
        return "MPI itself leaks and races in the eyes of the sanitizers";
    return plugin_open("mpi", &error) && system("command -v mpirun >/dev/null") == 0
        ? NULL : "weir-mpi.so is not built here (scons mpi=yes says what it lacks), or there is no mpirun";
}

static void a_rank_that_never_comes_to_mpi_is_not_waited_for_for_ever(void **state)
{
    char said[8000];
    if (skip_reason())
        TEST_SKIP(skip_reason());
    if (!ends_when_stopped(*state, 0, said, sizeof said)
        || !strstr(said, "ends with 3: rank ")
        || !gives_up_in(said, "MPI_Init"))
        fail_msg("%s", said);
}

static void nor_one_that_is_stopped_later(void **state)
{
    char said[8000];
    if (skip_reason())
        TEST_SKIP(skip_reason());
    for (uint64_t trial = 0; trial < test_trials(2, 100); trial++) {
        uint64_t seed = trial;
        const unsigned moment = (unsigned)random_below(&seed, 300000);
        const bool has_ended = ends_when_stopped(*state, moment, said, sizeof said);
        if (!has_ended || !strstr(said, "ends with 3: "))  // whom they name is the meeting's: test_control
            fail_msg("trial %llu, stopped after %u us: %s", (unsigned long long)trial, moment, said);
    }
}

int main(int count, char **arguments)
{
    char program[400] = "";
    if (count > 1)
        return be_rank((useconds_t)strtoul(arguments[1], NULL, 10));
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return 3;
    const struct CMUnitTest tests[] = {
        { "a_rank_that_never_comes_to_mpi_is_not_waited_for_for_ever",
          a_rank_that_never_comes_to_mpi_is_not_waited_for_for_ever, NULL, NULL, program },
        { "nor_one_that_is_stopped_later", nor_one_that_is_stopped_later, NULL, NULL, program },
    };
    return cmocka_run_group_tests_name("MPI's start", tests, NULL, NULL);
}
