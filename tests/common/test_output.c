// What a file system does that fails is played: the functions below stand in for the C library's.
#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/text.h"
#include "tests/test.h"

// --- a file system that fails ------------------------------------------------------------

enum step { NOWHERE, IN_OPEN, IN_WRITE, IN_SYNC, IN_LINK, IN_CLOSE, IN_RENAME };

static struct {
    bool lacks_nameless;  // knows no O_TMPFILE
    enum step step;       // where it fails with `reason`, or where `signal` comes
    int reason, signal;
    char calls[200];      // what was asked of it
} played;

// Whether the step is to fail.
static bool play(enum step step, const char *name)
{
    snprintf(played.calls + strlen(played.calls), sizeof played.calls - strlen(played.calls), " %s", name);
    if (played.step != step)
        return false;
    if (played.signal)
        raise(played.signal);
    errno = played.reason;
    return played.reason != 0;
}

int openat(int folder, const char *path, int flags, ...)
{
    const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (is_nameless && played.lacks_nameless) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return play(IN_OPEN, is_nameless ? "make" : "make-named") ? -1 : (int)syscall(SYS_openat, folder, path, flags, 0666);
}

ssize_t write(int file, const void *bytes, size_t length)
{
    return play(IN_WRITE, "write") ? -1 : syscall(SYS_write, file, bytes, length);
}

int fsync(int file)
{
    struct stat status;
    return play(IN_SYNC, fstat(file, &status) == 0 && S_ISDIR(status.st_mode) ? "sync-folder" : "sync")
             ? -1 : (int)syscall(SYS_fsync, file);
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    return play(IN_LINK, "name") ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}

int close(int file)
{
    const bool fails = play(IN_CLOSE, "close");
    const int reason = errno, closed = (int)syscall(SYS_close, file);
    errno = reason;
    return fails ? -1 : closed;
}

int renameat(int from, const char *old, int to, const char *new)
{
    return play(IN_RENAME, "rename") ? -1 : (int)syscall(SYS_renameat, from, old, to, new);
}

// --- a folder per test -------------------------------------------------------------------

static char folder[] = "/tmp/weir-output-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    memset(&played, 0, sizeof played);
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[100];
    memset(&played, 0, sizeof played);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command);
}

static void save(const char *path, const char *words)
{
    struct error error = { 0 };
    assert_good(output_save(path, words, strlen(words), &error), error);
}

static void assert_refused(const char *path, const char *sentence, enum error_kind kind)
{
    struct error error = { 0 };
    assert_false(output_save(path, "new", 3, &error));
    assert_error(error, sentence);
    assert_int_equal(error.kind, kind);
}

static void assert_file(const char *path, const char *words)
{
    struct error error = { 0 };
    size_t length = 0;
    char *loaded = text_load(path, &length, &error);
    assert_good(loaded, error);
    assert_string_equal(loaded, words);
    free(loaded);
}

// By `ls -A`, names with blanks between them.
static void assert_folder_has(const char *names)
{
    char command[500];
    snprintf(command, sizeof command, "test \"$(ls -A %s | tr '\\n' ' ')\" = \"%s \"", folder, names);
    if (system(command) != 0) {
        snprintf(command, sizeof command, "ls -A %s >&2", folder);
        fail_msg("the folder has something else than %s (%d)", names, system(command));
    }
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

// --- where it ends -----------------------------------------------------------------------

static void a_link_where_a_name_aside_is_guessed_is_not_followed(void **state)
{
    (void)state;
    char guess[64];
    save("victim", "of value");
    snprintf(guess, sizeof guess, "plan.json.%ld.tmp", (long)getpid());
    const char *const guesses[] = { guess, "plan.json.tmp", "plan.json.new" };
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(symlink("victim", guesses[i]), 0);
    save("plan.json", "new");
    assert_file("victim", "of value");
    assert_file("plan.json", "new");
    struct stat status;
    for (size_t i = 0; i < 3; i++)
        assert_true(lstat(guesses[i], &status) == 0 && S_ISLNK(status.st_mode));
}

static void a_new_file_has_what_the_umask_leaves_and_an_old_one_what_it_had(void **state)
{
    (void)state;
    const mode_t before = umask(027);
    for (int named = 0; named < 2; named++) {
        played.lacks_nameless = named;
        save("plan.json", "first");
        assert_int_equal(mode_of("plan.json"), 0640);
        assert_int_equal(chmod("plan.json", 0606), 0);
        save("plan.json", "second");
        assert_int_equal(mode_of("plan.json"), 0606);
        assert_int_equal(chmod("plan.json", 04755), 0);
        save("plan.json", "third");
        assert_int_equal(mode_of("plan.json"), 0755);  // who may become someone is not said by what is in a file
        unlink("plan.json");
    }
    umask(before);
}

static void a_file_that_must_not_be_written_is_not_replaced_either(void **state)
{
    (void)state;
    save("plan.json", "old");
    assert_int_equal(chmod("plan.json", 0444) || chmod(".", 0777), 0);
    const bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    assert_refused("plan.json", "plan.json: cannot be written: Permission denied", ERROR_MACHINE);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_file("plan.json", "old");
    assert_folder_has("plan.json");
}

static void the_file_behind_a_link_is_replaced_in_its_own_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir("there", 0755), 0);
    save("there/plan.json", "old");
    assert_int_equal(symlink("there/plan.json", "latest"), 0);
    save("latest", "new");
    assert_file("there/plan.json", "new");
    struct stat status;
    assert_true(lstat("latest", &status) == 0 && S_ISLNK(status.st_mode));
    assert_folder_has("latest there");
}

static void of_its_own_folder_a_program_replaces_the_link(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct stat status;
    const struct output_part part = { "new", 3 };
    save("elsewhere", "old");
    assert_int_equal(symlink("elsewhere", "own"), 0);
    assert_int_equal(symlink("nowhere", "other"), 0);
    assert_good(output_replace("own", &part, 1, &error) && output_replace("other", &part, 1, &error), error);
    assert_file("elsewhere", "old");
    assert_file("own", "new");
    assert_file("other", "new");
    assert_true(lstat("own", &status) == 0 && S_ISREG(status.st_mode));
    assert_int_equal(access("nowhere", F_OK), -1);
}

static void a_link_to_nothing_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink("missing", "latest") || symlink("b", "a") || symlink("a", "b"), 0);
    assert_refused("latest", "latest: is a link to a file that is not there; make that file, or remove the link",
                   ERROR_INPUT);
    assert_refused("a", "a: cannot be written: Too many levels of symbolic links", ERROR_MACHINE);
    assert_refused("folder/", "folder/: is a folder, not a file", ERROR_INPUT);
    assert_refused("", ": cannot be written: No such file or directory", ERROR_MACHINE);
    assert_folder_has("a b latest");
}

static void a_pipe_is_written_to(void **state)
{
    (void)state;
    char got[8] = "";
    assert_int_equal(mkfifo("pipe", 0600), 0);
    const int reader = open("pipe", O_RDWR);
    save("pipe", "words");
    assert_int_equal(read(reader, got, sizeof got), 5);
    assert_string_equal(got, "words");
    close(reader);
    assert_folder_has("pipe");
}

// As `weir ... -o /dev/fd/3 3>>log` and -o >(program) have it.
static void a_descriptor_is_written_to_where_it_stands(void **state)
{
    (void)state;
    char path[40], got[8] = "";
    const int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0666);
    assert_int_equal(syscall(SYS_write, log, "before ", 7), 7);
    snprintf(path, sizeof path, "/dev/fd/%d", log);
    save(path, "first ");
    snprintf(path, sizeof path, "/proc/self/fd/%d", log);
    save(path, "second");
    assert_file("log", "before first second");
    close(log);

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    save(path, "words");
    assert_int_equal(read(ends[0], got, sizeof got), 5);
    close(ends[0]), close(ends[1]);
    snprintf(got, sizeof got, "%d", ends[1]);
    char sentence[80];
    snprintf(sentence, sizeof sentence, "/dev/fd/%d: cannot be written: Bad file descriptor", ends[1]);
    assert_refused(path, sentence, ERROR_MACHINE);
    assert_folder_has("log");
}

static void the_longest_name_is_written(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    save(name, "words");
    assert_file(name, "words");
    assert_folder_has(name);
}

// --- what goes wrong ---------------------------------------------------------------------

static void it_is_synced_before_it_has_its_name_and_so_is_the_folder_after(void **state)
{
    (void)state;
    save("plan.json", "words");
    assert_string_equal(played.calls, " make write sync name close rename sync-folder close");
    memset(&played, 0, sizeof played);
    played.lacks_nameless = true;
    save("plan.json", "words");
    assert_string_equal(played.calls, " make-named write sync close rename sync-folder close");
}

static struct trouble {
    const char *name;
    enum step step;
    int reason;
    const char *sentence;
} troubles[] = {
    { "trouble: a file cannot be made", IN_OPEN, ENOSPC, "plan.json: cannot be written: No space left on device" },
    { "trouble: the disk is full", IN_WRITE, ENOSPC, "plan.json: cannot be written: No space left on device" },
    { "trouble: the disk is broken", IN_WRITE, EIO, "plan.json: cannot be written: Input/output error" },
    { "trouble: it cannot be synced", IN_SYNC, EIO, "plan.json: cannot be written: Input/output error" },
    { "trouble: it has no name", IN_LINK, EDQUOT, "plan.json: cannot be written: Disk quota exceeded" },
    { "trouble: it cannot be closed", IN_CLOSE, ENOSPC, "plan.json: cannot be written: No space left on device" },
    { "trouble: it cannot be renamed", IN_RENAME, EACCES, "plan.json: cannot be written: Permission denied" },
};

static void the_old_file_is_untouched_and_nothing_is_left(void **state)
{
    const struct trouble *trouble = *state;
    for (int named = 0; named < 2; named++) {
        if (named && trouble->step == IN_LINK)
            continue;
        enter_folder(NULL);
        save("plan.json", "old");
        played.lacks_nameless = named;
        played.step = trouble->step;
        played.reason = trouble->reason;
        assert_refused("plan.json", trouble->sentence, ERROR_MACHINE);
        memset(&played, 0, sizeof played);
        assert_file("plan.json", "old");
        assert_folder_has("plan.json");
        unlink("plan.json");
        assert_refused("no/such/folder", "no/such/folder: cannot be written: No such file or directory", ERROR_MACHINE);
        assert_int_equal(leave_folder(NULL), 0);
    }
}

static struct stop {
    const char *name;
    int signal;
    enum step step;
} stops[] = {
    { "stop: Ctrl-C while it is written", SIGINT, IN_WRITE },  { "stop: Ctrl-C before its name", SIGINT, IN_RENAME },
    { "stop: SIGTERM while it is written", SIGTERM, IN_WRITE }, { "stop: SIGTERM before its name", SIGTERM, IN_RENAME },
    { "stop: SIGHUP while it is synced", SIGHUP, IN_SYNC },
};

static void a_signal_ends_the_program_once_nothing_is_left_beside_it(void **state)
{
    const struct stop *stop = *state;
    for (int named = 0; named < 2; named++) {
        enter_folder(NULL);
        save("plan.json", "old");
        const pid_t child = fork();
        if (child == 0) {
            struct error error = { 0 };
            signal(stop->signal, SIG_DFL);  // under nohup it is ignored
            played.lacks_nameless = named;
            played.step = stop->step;
            played.signal = stop->signal;
            output_save("plan.json", "new", 3, &error);
            _exit(99);  // it came too late, or never
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == stop->signal);
        assert_folder_has("plan.json");
        assert_file("plan.json", "new");
        assert_int_equal(leave_folder(NULL), 0);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    enum { OTHERS = 9, TROUBLES = sizeof troubles / sizeof troubles[0], STOPS = sizeof stops / sizeof stops[0] };
    struct CMUnitTest tests[OTHERS + TROUBLES + STOPS] = {
        IN_FOLDER(a_link_where_a_name_aside_is_guessed_is_not_followed),
        IN_FOLDER(a_new_file_has_what_the_umask_leaves_and_an_old_one_what_it_had),
        IN_FOLDER(a_file_that_must_not_be_written_is_not_replaced_either),
        IN_FOLDER(the_file_behind_a_link_is_replaced_in_its_own_folder),
        IN_FOLDER(of_its_own_folder_a_program_replaces_the_link),
        IN_FOLDER(a_link_to_nothing_is_refused),
        IN_FOLDER(a_pipe_is_written_to),
        IN_FOLDER(a_descriptor_is_written_to_where_it_stands),
        IN_FOLDER(the_longest_name_is_written),
        IN_FOLDER(it_is_synced_before_it_has_its_name_and_so_is_the_folder_after),
    };
    struct CMUnitTest *rows = &tests[OTHERS];
    for (size_t i = 0; i < TROUBLES; i++)
        rows[i] = (struct CMUnitTest)TEST_ROW(the_old_file_is_untouched_and_nothing_is_left, &troubles[i]);
    for (size_t i = 0; i < STOPS; i++)
        rows[TROUBLES + i] = (struct CMUnitTest)TEST_ROW(a_signal_ends_the_program_once_nothing_is_left_beside_it,
                                                         &stops[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
