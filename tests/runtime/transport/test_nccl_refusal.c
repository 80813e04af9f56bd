// NCCL itself, as far as it goes without a GPU: processes meet by each way there is to say
// where, rank 0 has NCCL make a name (which listens from then on), all get it, and the
// communicator is refused with a sentence that says what is missing.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "device/maker.h"
#include "device/plugin.h"
#include "tests/processes.h"

enum { RANKS = 2, MOST_VARIABLES = 6 };
static const uint64_t minute_ns = 60 * (uint64_t)1000000000;

struct way {
    const char *name;
    // Of rank %u; the second %u is a free port, and %s a file.
    const char *variables[MOST_VARIABLES];
};

static struct way ways[] = {
    { "ranks of torchrun are refused by NCCL with a sentence",
      { "RANK=%u", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=%2$u" } },
    { "ranks of mpirun are refused by NCCL with a sentence",
      { "OMPI_COMM_WORLD_RANK=%u", "OMPI_COMM_WORLD_SIZE=2", "MASTER_PORT=%2$u" } },
    { "ranks of srun are refused by NCCL with a sentence",
      { "SLURM_PROCID=%u", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=localhost,elsewhere", "MASTER_PORT=%2$u" } },
    { "ranks that meet by a file are refused by NCCL with a sentence",
      { "WEIR_RANK=%u", "WEIR_RANKS=2", "WEIR_RENDEZVOUS=%3$s" } },
    { "ranks that meet by NCCL's variable are refused by NCCL with a sentence",
      { "WEIR_RANK=%u", "WEIR_RANKS=2", "NCCL_COMM_ID=localhost:%2$u" } },
};

// The plug-in of this build, which lies beside the tests.
static const struct plugin *find_plugin(struct error *error)
{
    char folder[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    assert_true(length > 0);
    folder[length] = '\0';
    char *last = strstr(folder, "/tests/");
    for (char *next = last; next; next = strstr(next + 1, "/tests/"))
        last = next;
    assert_non_null(last);
    *last = '\0';
    strncat(folder, "/lib", sizeof folder - strlen(folder) - 1);
    setenv("WEIR_PLUGINS", folder, 1);
    const struct plugin *plugin = plugin_open("cuda", error);
    unsetenv("WEIR_PLUGINS");
    return plugin;
}

static void set_variables(const struct way *way, unsigned rank, unsigned port, const char *file)
{
    for (size_t i = 0; i < MOST_VARIABLES && way->variables[i]; i++) {
        const char *at = strchr(way->variables[i], '=');
        char name[64], text[200];
        snprintf(name, sizeof name, "%.*s", (int)(at - way->variables[i]), way->variables[i]);
        snprintf(text, sizeof text, "%s", at + 1);
        if (strstr(at, "%u"))
            snprintf(text, sizeof text, "%u", rank);
        if (strstr(at, "%2$u"))
            snprintf(text, sizeof text, "%.*s%u", (int)(strchr(at, '%') - at - 1), at + 1, port);
        if (strstr(at, "%3$s"))
            snprintf(text, sizeof text, "%s", file);
        setenv(name, text, 1);
    }
}

// Gets NCCL's name for the ranks to all of them, and asks NCCL to join them. True with NCCL's refusal in *refusal.
static bool join(const struct plugin *plugin, struct control *control, const struct launch *launch,
                 struct error *refusal, struct error *error)
{
    struct device device = { .functions = plugin->device, .name = "cuda" };  // as it is before a GPU is looked for
    const struct communicator_functions *functions = plugin->device->communicators;
    const struct process_group group = control_group(control);
    struct communicator communicator = { .device = &device, .ranks = RANKS, .rank = launch->rank };
    struct communicator_name name = { { 0 } };
    if ((launch->rank == 0 && !functions->make_name(&device, &name, error))
        || !group.broadcast(group.self, 0, &name, sizeof name, error))
        return false;
    if (!functions->open(&communicator, &name, refusal))
        return true;
    const uint64_t deadline_ns = clock_now_ns() + minute_ns;
    for (bool ready = false; !ready && clock_now_ns() < deadline_ns; usleep(1000))
        if (!functions->is_ready(&communicator, &ready, refusal)) {
            functions->close(&communicator);
            return true;
        }
    return error_set(error, "NCCL has joined ranks without a GPU");
}

// A rank; it exits with 0 if all went as it should.
static int be_refused(const struct plugin *plugin)
{
    static const char expected[] = "NCCL needs a GPU, and NVIDIA's driver is not installed here (ncclCommInitRankConfig():"
                                   " unhandled cuda error (run with NCCL_DEBUG=INFO for details))";
    const struct control_settings settings = { .deadline_ns = minute_ns };
    struct error error = { 0 }, refusal = { 0 };
    struct launch launch;
    struct control *control = launch_from_environment(&launch, &error) ? control_open(&launch, &settings, &error) : NULL;
    const bool good = control && join(plugin, control, &launch, &refusal, &error)
                   && meet(control, &error);  // nobody leaves before all are refused
    control_close(control);
    const bool is_it = good && refusal.kind == ERROR_MACHINE && strcmp(refusal.text, expected) == 0;
    if (!is_it)
        fprintf(stderr, "rank %u: %s%s\n", launch.rank, error.text, refusal.text);
    return is_it ? 0 : 1;
}

static void ranks_are_refused(void **state)
{
    const struct way *way = *state;
    struct error error = { 0 };
    const struct plugin *plugin = find_plugin(&error);
    if (!plugin)
        TEST_SKIP(error.text);
    if (access("/dev/nvidiactl", F_OK) == 0)
        TEST_SKIP("there is a driver here");
    char file[100];
    pid_t ranks[RANKS];
    const unsigned port = own_port();
    snprintf(file, sizeof file, "%s/weir-refusal-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    fflush(NULL);
    for (unsigned rank = 0; rank < RANKS; rank++)
        if ((ranks[rank] = fork()) == 0) {
            set_variables(way, rank, port, file);
            _exit(be_refused(plugin));
        }
    for (unsigned rank = 0; rank < RANKS; rank++) {
        int status;
        assert_int_equal(waitpid(ranks[rank], &status, 0), ranks[rank]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_not_equal(access(file, F_OK), 0);
}

int main(void)
{
    struct CMUnitTest tests[sizeof ways / sizeof ways[0]];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(ranks_are_refused, &ways[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
