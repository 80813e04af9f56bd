// A rank of a training run is killed (SIGKILL), or stopped (SIGSTOP), at a random moment from its start on: all others
// end with exit code 3, name it, and leave nothing behind but checkpoints that `weir eval` loads. Where it is asked to
// stop (SIGTERM) all end with exit code 4, and leave one of the step that they say. Under every engine: threads of one process,
// processes that meet by a file, processes of mpirun. Several runs go side by side, since one whose rank is stopped
// mostly waits; of those of mpirun, which name no place, half have no weir-mpi.so to meet by, and none takes another's
// ranks.
//
// The test starts itself: `test_ended_runs be-rank FOLDER WORDS..` is `weir WORDS..` in a folder, where it says who it is.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/number.h"
#include "common/clock.h"
#include "common/random.h"
#include "tests/hostile/weir_child.h"
#include "tests/sanitizer.h"
#include "tests/test.h"

enum engine { THREADS, PROCESSES, MPIRUN, ENGINES };
static const char *const engine_names[] = { "threads", "processes", "mpirun" };

enum { SIGNALS = 3 };
static const struct {
    int number;
    const char *done;
} signals[SIGNALS] = { { SIGKILL, "killed" }, { SIGSTOP, "stopped" }, { SIGTERM, "asked to stop" } };

enum { RANKS = 3, SIDE_BY_SIDE = 24, MOST_WORDS = 30, MOST_MOMENT_US = 1500000, PATH_SIZE = 300 };

// Who takes longer to end waits for ever: a rank is taken for dead after half a minute of silence.
static const uint64_t patience_ns = 180000000000, launcher_patience_ns = 10000000000;

#define MODEL "gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
#define TRAIN "train " MODEL " --plan plan.json --data /usr/share/common-licenses --every 1000000 --out out " \
              "--checkpoints kept --save-every 100"

struct trial {
    uint64_t number;
    enum engine engine;
    bool has_no_plugin;
    int signal;
    uint32_t victim;
    char folder[PATH_SIZE];
    pid_t started[RANKS];  // by the test: one for threads, mpirun, or one per rank
    size_t started_count;
    pid_t victim_process;  // 0: it had not begun yet
    uint64_t signalled_ns, ended_ns[RANKS];  // 0: not yet
    uint64_t until_ns;
    int statuses[RANKS];   // of whom the test has started; -1: had to be ended
    bool have_ended;       // ranks of mpirun, by themselves
    bool launcher_failed;  // mpirun itself did not end, or crashed
};

// --- a rank -----------------------------------------------------------------------------

static const char *rank_of_launcher(void)
{
    const char *by_mpi = getenv("OMPI_COMM_WORLD_RANK"), *by_test = getenv("WEIR_RANK");
    return by_mpi ? by_mpi : by_test ? by_test : "0";
}

static void direct(int descriptor, const char *name)
{
    const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0)
        dup2(file, descriptor);
}

// Ends as `weir` does. The process's number is told by renaming, so that it is there whole or not at all.
static int be_rank(int count, char **arguments)
{
    char name[40], whole[40];
    if (chdir(arguments[0]) != 0)
        return 99;
    snprintf(name, sizeof name, "own.%s", rank_of_launcher());
    direct(STDOUT_FILENO, name);
    printf("%d", (int)getpid());
    fflush(stdout);
    snprintf(whole, sizeof whole, "process.%s", rank_of_launcher());
    rename(name, whole);
    snprintf(name, sizeof name, "out.%s", rank_of_launcher());
    direct(STDOUT_FILENO, name);
    snprintf(name, sizeof name, "err.%s", rank_of_launcher());
    direct(STDERR_FILENO, name);
    arguments[0] = (char[]){ "weir" };
    return weir_main(count, arguments);
}

// --- a run ------------------------------------------------------------------------------

static const char *in_folder(const struct trial *trial, const char *name, char path[PATH_SIZE + 100])
{
    snprintf(path, PATH_SIZE + 100, "%s/%s", trial->folder, name);
    return path;
}

// A file of the folder as text, to be freed; NULL where there is none.
static char *load(const struct trial *trial, const char *stem, uint32_t rank)
{
    char name[100], path[PATH_SIZE + 100], *text = NULL;
    snprintf(name, sizeof name, "%s.%u", stem, rank);
    FILE *file = fopen(in_folder(trial, name, path), "r");
    if (!file)
        return NULL;
    text = calloc(1, 1 << 16);
    assert_non_null(text);
    text[fread(text, 1, (1 << 16) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static pid_t process_of(const struct trial *trial, uint32_t rank)
{
    char *text = load(trial, "process", rank);
    const pid_t process = text ? (pid_t)strtol(text, NULL, 10) : 0;
    free(text);
    return process;
}

// One that has ended and that nobody has waited for yet is over, too.
static bool is_over(pid_t process)
{
    char path[60], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    const bool is_known = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return !is_known || state == 'Z' || state == 'X';
}

static struct {  // runs that go side by side
    struct trial all[SIDE_BY_SIDE];
    size_t count;
} batch;

static void note_ends(void)
{
    for (size_t i = 0; i < batch.count; i++) {
        struct trial *trial = &batch.all[i];
        for (uint32_t rank = 0; rank < RANKS && trial->signalled_ns; rank++) {
            const pid_t process = trial->ended_ns[rank] ? 0 : process_of(trial, rank);
            if (process > 0 && is_over(process))
                trial->ended_ns[rank] = clock_now_ns();
        }
    }
}

static void pause_and_note(void)
{
    usleep(1000);
    note_ends();
}

static pid_t start_words(const struct trial *trial, const char *const words[], const char *rank)
{
    char path[PATH_SIZE + 100];
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process != 0)
        return process;
    for (int caught = SIGILL; caught <= SIGSYS; caught++)
        signal(caught, SIG_DFL);  // what cmocka has set
    setpgid(0, 0);
    setenv("TMPDIR", trial->folder, 1);
    setenv("WEIR_START_WITHIN", "20s", 1);
    if (trial->has_no_plugin)
        setenv("WEIR_PLUGINS", trial->folder, 1);
    if (rank) {
        setenv("WEIR_RANK", rank, 1);
        setenv("WEIR_RANKS", "3", 1);
        setenv("WEIR_RENDEZVOUS", in_folder(trial, "meet", path), 1);
    }
    direct(STDOUT_FILENO, in_folder(trial, "launcher.0", path));
    direct(STDERR_FILENO, path);
    execvp(words[0], (char **)words);
    _exit(98);
}

// The words of a rank: of threads that are stopped there is an end to wait for.
static void start(struct trial *trial, const char *program)
{
    static const char *const ranks[] = { "0", "1", "2" };
    const char *words[MOST_WORDS + 10] = { "mpirun", "-n", "3", program, "be-rank", trial->folder };
    const char *const *own = trial->engine == MPIRUN ? words : words + 3;
    char line[400];
    snprintf(line, sizeof line, "%s --device %s --steps %d", TRAIN, trial->engine == THREADS ? "cpu" : "cpu:queued",
             trial->engine == THREADS && trial->signal == SIGSTOP ? 1200 : 1000000);
    child_words(line, words + 6, MOST_WORDS);
    trial->started_count = trial->engine == PROCESSES ? RANKS : 1;
    for (size_t i = 0; i < trial->started_count; i++)
        trial->started[i] = start_words(trial, own, trial->engine == PROCESSES ? ranks[i] : NULL);
}

static void trial_begin(struct trial *trial, const char *folder, const char *program)
{
    char path[PATH_SIZE + 100], plan[PATH_SIZE + 100];
    uint64_t seed = trial->number;
    snprintf(trial->folder, sizeof trial->folder, "%s/%llu", folder, (unsigned long long)trial->number);
    assert_int_equal(mkdir(trial->folder, 0700), 0);
    snprintf(plan, sizeof plan, "%s/plan.json", folder);
    assert_int_equal(symlink(plan, in_folder(trial, "plan.json", path)), 0);
    trial->victim = trial->engine == THREADS ? 0 : (uint32_t)random_below(&seed, RANKS);
    trial->until_ns = clock_now_ns() + patience_ns;
    start(trial, program);
    const uint64_t moment_ns = clock_now_ns() + 1000 * random_below(&seed, MOST_MOMENT_US);
    while (clock_now_ns() < moment_ns)
        pause_and_note();
    while ((trial->victim_process = process_of(trial, trial->victim)) == 0 && clock_now_ns() < trial->until_ns)
        pause_and_note();  // mpirun takes its time
    if (trial->victim_process > 0)
        kill(trial->victim_process, trial->signal);
    trial->signalled_ns = clock_now_ns();
    if (trial->engine == THREADS && trial->signal == SIGSTOP) {
        usleep(100000);
        kill(trial->victim_process, SIGCONT);
    }
}

// --- what came of it --------------------------------------------------------------------

// Waits until a process that the test has started is over; its status, or -1 where it had to be ended.
static int await_end(const struct trial *trial, size_t which)
{
    int status = -1;
    const pid_t process = trial->started[which];
    const bool is_stopped = trial->engine == PROCESSES && trial->signal == SIGSTOP && which == trial->victim;
    pid_t ended = 0;
    while (!is_stopped && (ended = waitpid(process, &status, WNOHANG)) == 0 && clock_now_ns() < trial->until_ns)
        pause_and_note();
    if (ended == process)
        return status;
    kill(-process, SIGKILL);
    waitpid(process, &status, 0);
    return is_stopped ? status : -1;
}

// Whether a process that the test has not started itself is over in time; who is not is ended.
static bool await_process(const struct trial *trial, pid_t process)
{
    while (process > 0 && !is_over(process) && clock_now_ns() < trial->until_ns)
        pause_and_note();
    if (process <= 0 || is_over(process))
        return true;
    kill(process, SIGKILL);
    return false;
}

static void await_all(struct trial *trial)
{
    trial->have_ended = true;
    for (uint32_t at = 1; at < RANKS && trial->engine == MPIRUN; at++)
        trial->have_ended &= await_process(trial, process_of(trial, (trial->victim + at) % RANKS));
    if (trial->engine == MPIRUN)
        trial->until_ns = min_u64(trial->until_ns, clock_now_ns() + launcher_patience_ns);
    for (uint32_t at = 1; at <= trial->started_count; at++) {
        const size_t which = (trial->victim + at) % trial->started_count;  // who was stopped comes last
        trial->statuses[which] = await_end(trial, which);
    }
    if (trial->engine == MPIRUN && !await_process(trial, trial->victim_process) && trial->signal != SIGSTOP)
        trial->have_ended = false;
    note_ends();
}

// Who was ended before it came is known by its number alone; of one that never came to MPI's own start, MPI does not
// tell even that.
static bool names_victim(const struct trial *trial, const char *text)
{
    char killed[60], by_mpi[60], number[20];
    snprintf(killed, sizeof killed, "rank %u (process %d on ", trial->victim, (int)trial->victim_process);
    snprintf(by_mpi, sizeof by_mpi, "process rank %u with PID", trial->victim);
    if (text && (strstr(text, killed) || strstr(text, by_mpi)))
        return true;
    snprintf(number, sizeof number, "rank %u", trial->victim);
    const char *own = text ? strstr(text, " of 3: ") : NULL;  // "rank 2 of 3: ..." says it of itself
    const char *reason = own ? own : text;
    return reason && (strstr(reason, "MPI does not say which of them has not come")
                      || (strstr(reason, number) && !strstr(reason, "(process ")));
}

static const char *judge_threads(const struct trial *trial)
{
    const int status = trial->statuses[0];
    char *out = load(trial, "out", 0);
    const bool is_whole = out && strstr(out, "held-out text: ");
    free(out);
    if (status == -1)
        return "did not end";
    if (trial->signal != SIGSTOP)
        return WIFSIGNALED(status) && WTERMSIG(status) == trial->signal ? NULL : "was not ended by its signal";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && is_whole ? NULL : "did not go on after it was stopped";
}

// A rank that begins when rank 0 has heard of the end already, and has left, finds nobody.
static bool came_too_late(const struct trial *trial, uint32_t rank, const char *text)
{
    char *first = load(trial, "err", 0);
    const bool knows = rank != 0 && trial->victim != 0 && names_victim(trial, first);
    free(first);
    return knows && text && strstr(text, "cannot reach rank 0 (nobody wrote where it listens)");
}

static const char *judge_processes(const struct trial *trial)
{
    const char *fault = NULL;
    for (uint32_t at = 1; at < RANKS && !fault; at++) {
        const uint32_t rank = (trial->victim + at) % RANKS;
        const int status = trial->statuses[rank];
        char *text = load(trial, "err", rank);
        fault = status == -1 ? "a rank did not end"
              : !WIFEXITED(status) || WEXITSTATUS(status) != 3 ? "a rank did not end with 3"
              : !names_victim(trial, text) && !came_too_late(trial, rank, text)
              ? "a rank does not name who was ended" : NULL;
        free(text);
    }
    const int status = trial->statuses[trial->victim];
    return fault || trial->signal != SIGTERM || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
        ? fault : "who was asked to stop ended without the others";
}

// mpirun ends ranks that have not ended yet when the first has: one of them has said who it was, or mpirun. Who was
// stopped may be left to us. (When it ends a job, Open MPI 4.1's mpirun itself may hang, crash, or say of a rank that
// was killed no more than that there was one, and end the others before they hear of it; ranks must not.)
static const char *judge_mpirun(struct trial *trial)
{
    const int status = trial->statuses[0];
    bool is_named = false;
    for (uint32_t file = 0; file <= RANKS; file++) {
        char *text = file < RANKS ? load(trial, "err", file) : load(trial, "launcher", 0);
        is_named = is_named || names_victim(trial, text)
            || (file == RANKS && trial->signal != SIGSTOP && text && strstr(text, "the job has been aborted"));
        free(text);
    }
    trial->launcher_failed = status == -1 || WIFSIGNALED(status);
    return !trial->have_ended ? "a rank did not end"
         : status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0
         ? "ended well" : is_named || trial->launcher_failed ? NULL : "nobody names who was ended";
}

// The step behind which all have stopped, as rank 0 says; 0: they have not, since the signal came before they trained.
static unsigned long long stopped_behind(const struct trial *trial)
{
    unsigned long long step = 0;
    char *text = trial->signal == SIGTERM ? load(trial, "err", 0) : NULL;
    const char *at = text ? strstr(text, "stopped behind step ") : NULL;
    if (at)
        sscanf(at, "stopped behind step %llu", &step);
    free(text);
    return step;
}

static const char *judge_asked(struct trial *trial, unsigned long long step)
{
    char name[60], path[PATH_SIZE + 100];
    bool are_well = trial->have_ended;
    trial->launcher_failed = trial->engine == MPIRUN && (trial->statuses[0] == -1 || WIFSIGNALED(trial->statuses[0]));
    for (size_t i = 0; i < trial->started_count && !trial->launcher_failed; i++)
        are_well = are_well && WIFEXITED(trial->statuses[i]) && WEXITSTATUS(trial->statuses[i]) == 4;
    snprintf(name, sizeof name, "kept/step-%llu", step);
    return !are_well ? "a rank did not end well" : access(in_folder(trial, name, path), F_OK) == 0
         ? NULL : "the step that it stopped behind is not kept";
}

// What is kept, if anything is, can be gone on from.
static const char *judge_kept(const struct trial *trial)
{
    char path[PATH_SIZE + 100];
    const char *const words[] = { "weir", "eval", MODEL, "--checkpoint", "kept", "--data", "/usr/share/common-licenses",
                                  NULL };
    struct child child = { 0 };
    bool is_kept = false;
    DIR *folder = opendir(in_folder(trial, "kept", path));
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL; )
        is_kept = is_kept || (strncmp(entry->d_name, "step-", 5) == 0 && !strstr(entry->d_name, ".tmp"));
    if (folder)
        closedir(folder);
    if (!is_kept)
        return NULL;
    child_run(words, trial->folder, &child);
    const bool is_good = child.code == 0 && strstr(child.out, "loss") && !strstr(child.err, "left out");
    if (!is_good)
        print_message("%s", child.err);
    child_clear(&child);
    return is_good ? NULL : "a checkpoint is not whole";
}

// What the test and launchers put there, the place to meet of a rank 0 that could not remove it, and the timelines.
static bool may_stay(const struct trial *trial, const char *name)
{
    static const char *const stems[] = { ".", "..", "plan.json", "own.", "process.", "out", "err.", "launcher.", "ompi.",
                                         "prte.", "pmix", "kept" };
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strncmp(name, stems[i], strlen(stems[i])) == 0 && (i != 0 || strlen(name) < 3))
            return true;
    return strcmp(name, "meet") == 0 && trial->victim == 0;
}

// Whether only that is there; the folder is removed.
static const char *clear_away(const struct trial *trial, bool is_kept)
{
    static char left[PATH_SIZE];
    char command[PATH_SIZE + 20];
    DIR *folder = opendir(trial->folder);
    assert_non_null(folder);
    left[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL; )
        if (!may_stay(trial, entry->d_name))
            snprintf(left, sizeof left, "leaves %s behind", entry->d_name);
    closedir(folder);
    snprintf(command, sizeof command, "rm -r %s", trial->folder);
    if (!is_kept && !left[0])
        assert_int_equal(system(command), 0);
    return left[0] ? left : NULL;
}

static bool is_right(struct trial *trial)
{
    await_all(trial);
    const unsigned long long step = stopped_behind(trial);
    const char *fault = step > 0 ? judge_asked(trial, step) : trial->engine == THREADS ? judge_threads(trial)
                      : trial->engine == PROCESSES ? judge_processes(trial) : judge_mpirun(trial);
    if (!fault)
        fault = judge_kept(trial);
    const char *left = clear_away(trial, fault != NULL);
    if (fault || left)
        print_message("trial %llu: %s%s, rank %u %s: %s (%s)\n", (unsigned long long)trial->number,
                      engine_names[trial->engine], trial->has_no_plugin ? " alone" : "", trial->victim, signals[trial->number % SIGNALS].done,
                      fault ? fault : left, trial->folder);
    return !fault && !left;
}

// --- the test ---------------------------------------------------------------------------

static char program[PATH_SIZE], shared_folder[] = "/tmp/weir-ended-XXXXXX";

static void run_weir(const char *const words[])
{
    struct child child = { 0 };
    child_run(words, shared_folder, &child);
    if (child.code != 0)
        fail_msg("%s: %s", words[1], child.err);
    child_clear(&child);
}

static int make_plan(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(shared_folder));
    run_weir((const char *const[]){ "weir", "profile", MODEL, "-o", "profile.json", NULL });
    run_weir((const char *const[]){ "weir", "partition", "profile.json", "--cluster", "3 devices, 1GiB, 10GB/s 1us",
                                    "--schedule", "1f1b", "--micro-batches", "8", "-o", "plan.json", NULL });
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -f %s/*.json; rmdir %s 2>/dev/null", shared_folder, shared_folder);
    return system(command) == -1;  // trials that failed keep their folders
}

// How long the last of the others took to end, in milliseconds, of runs of one engine and signal.
struct delays {
    double *ms;
    size_t count;
};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void note_delay(const struct trial *trial, struct delays *delays)
{
    uint64_t last_ns = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != trial->victim || trial->signal == SIGTERM)
            last_ns = max_u64(last_ns, trial->ended_ns[rank]);
    if (last_ns)
        delays->ms[delays->count++] = (double)(last_ns - trial->signalled_ns) / 1e6;
}

static void say_delays(enum engine engine, size_t which, struct delays *delays)
{
    qsort(delays->ms, delays->count, sizeof delays->ms[0], by_size);
    if (delays->count > 0)
        print_message("# %s, %s: ended after %.0f ms in the median, %.0f at the 95th percentile, %.0f at most (%zu"
                      " runs)\n", engine_names[engine], signals[which].done, delays->ms[delays->count / 2],
                      delays->ms[delays->count * 95 / 100], delays->ms[delays->count - 1], delays->count);
    free(delays->ms);
}

static void all_others_end_and_name_it(void **state)
{
    (void)state;
    const bool has_mpi = system("command -v mpirun >/dev/null") == 0;
    const size_t kinds = SIGNALS * (has_mpi ? ENGINES : MPIRUN), each = test_trials(1, 70), trials = kinds * each;
    struct delays delays[ENGINES * SIGNALS] = { 0 };
    size_t wrong = 0, launchers = 0;
    for (size_t i = 0; i < kinds; i++)
        assert_non_null(delays[i].ms = calloc(each, sizeof delays[i].ms[0]));
    for (size_t first = 0; first < trials; first += SIDE_BY_SIDE) {
        batch.count = 0;
        for (size_t n = first; n < trials && n < first + SIDE_BY_SIDE; n++) {
            struct trial *trial = &batch.all[batch.count];
            *trial = (struct trial){ .number = n, .engine = (enum engine)(n % kinds / SIGNALS),
                                     .signal = signals[n % SIGNALS].number, .has_no_plugin = (n / kinds + n) % 2 == 1 };
            batch.count++;
            trial_begin(trial, shared_folder, program);
        }
        for (size_t i = 0; i < batch.count; i++) {
            wrong += !is_right(&batch.all[i]);
            launchers += batch.all[i].launcher_failed;
            note_delay(&batch.all[i], &delays[batch.all[i].number % kinds]);
        }
    }
    for (size_t i = 0; i < kinds; i++)
        say_delays((enum engine)(i / SIGNALS), i % SIGNALS, &delays[i]);
    print_message("# %zu runs%s, of each third one killed, stopped, asked to stop: %zu wrong; mpirun itself failed %zu"
                  " times\n", trials, has_mpi ? " by threads, processes and mpirun" : " by threads and processes", wrong,
                  launchers);
    assert_int_equal(wrong, 0);
}

static void it_is_not_tried_here(void **state)
{
    (void)state;
    TEST_SKIP("a sanitizer's processes are too slow to start so many");
}

int main(int count, char **arguments)
{
    if (count > 3 && strcmp(arguments[1], "be-rank") == 0)
        return be_rank(count - 2, arguments + 2);
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return 3;
    const struct CMUnitTest tests[] = {
        { "all_others_end_and_name_it", HAS_SANITIZER ? it_is_not_tried_here : all_others_end_and_name_it, NULL, NULL,
          NULL },
    };
    return cmocka_run_group_tests(tests, HAS_SANITIZER ? NULL : make_plan, HAS_SANITIZER ? NULL : remove_plan);
}
