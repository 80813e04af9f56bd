#include "tests/hostile/weir_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sanitizer.h"
#include "tests/test.h"

// Far more than any command needs for what these tests ask of it, on a busy machine too.
enum { MOST_SECONDS = HAS_SANITIZER ? 240 : 60, MOST_WALL_SECONDS = 5 * MOST_SECONDS, MOST_SHOWN = 1 << 20,
       MOST_WORDS = 63 };
static const uint64_t most_bytes = (uint64_t)(HAS_SANITIZER ? 6 : 2) << 30, usual_bytes = most_bytes / 4 * 3;

// --- running --------------------------------------------------------------------------

static void limit(int resource, uint64_t most)
{
    const struct rlimit limits = { .rlim_cur = most, .rlim_max = most };
    setrlimit(resource, &limits);
}

// What cmocka has set in this process is not the command's.
static void become_a_command(int in, int out, int err, const char *folder)
{
    static const int caught[] = { SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS };
    for (size_t i = 0; i < sizeof caught / sizeof caught[0] && !HAS_SANITIZER; i++)
        signal(caught[i], SIG_DFL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (chdir(folder) != 0)
        _exit(99);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, MOST_SECONDS);
    limit(RLIMIT_FSIZE, (uint64_t)1 << 30);
    if (!HAS_SANITIZER)  // whose shadow memory is larger than any limit
        limit(RLIMIT_AS, most_bytes);
    alarm(MOST_WALL_SECONDS);
}

static char *take_file(int file, size_t *length)
{
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    const size_t size = status.st_size < MOST_SHOWN ? (size_t)status.st_size : MOST_SHOWN;
    char *text = malloc(size + 1);
    assert_non_null(text);
    const ssize_t got = pread(file, text, size, 0);
    *length = got > 0 ? (size_t)got : 0;
    text[*length] = '\0';
    close(file);
    return text;
}

void child_run_prepared(const char *const words[], const char *folder, void (*prepare)(void), struct child *child)
{
    char *copies[MOST_WORDS + 1], *given[MOST_WORDS + 1];  // the second is the command's, which changes it
    int count = 0;
    for (; words[count]; count++) {
        assert_true(count < MOST_WORDS);
        copies[count] = given[count] = strdup(words[count]);
    }
    given[count] = NULL;
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    assert_true(in >= 0 && out >= 0 && err >= 0);
    fflush(stdout);
    fflush(stderr);
    const pid_t process = fork();
    if (process == 0) {
        become_a_command(in, out, err, folder);
        if (prepare)
            prepare();
        exit(weir_main(count, given));
    }
    assert_true(process > 0);
    int status;
    struct rusage used;
    assert_int_equal(wait4(process, &status, 0, &used), process);
    child->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    child->peak_bytes = (uint64_t)used.ru_maxrss * 1024;
    close(in);
    child->out = take_file(out, &child->out_length);
    child->err = take_file(err, &child->err_length);
    for (int i = 0; i < count; i++)
        free(copies[i]);
}

void child_run(const char *const words[], const char *folder, struct child *child)
{
    child_run_prepared(words, folder, NULL, child);
}

void child_clear(struct child *child)
{
    free(child->out);
    free(child->err);
    *child = (struct child){ .code = 0 };
}

size_t child_words(char *line, const char *words[], size_t room)
{
    size_t count = 0;
    for (char *save = NULL, *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        assert_true(count + 1 < room);
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

// --- judging --------------------------------------------------------------------------

// A terminal takes these for more than text. Tabs and line ends are text.
static bool has_control_bytes(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7f)
            return true;
    }
    return false;
}

// Whether one of the files stands in the line that ends there.
static bool names_one(const char *line, const char *end, const char *const files[])
{
    bool found = !files || !files[0];
    for (size_t i = 0; files && files[i] && !found; i++) {
        const char *at = strstr(line, files[i]);
        found = at && at < end;
    }
    return found;
}

// A refusal is one line, "weir: ..." or "weir COMMAND: ...", behind which argp puts where to read more. What had to be
// said before stands before it, in lines that begin alike.
static const char *refusal_fault(const char *err, const char *const files[])
{
    const char *line = err, *end = strchr(err, '\n');
    if (!end)
        return *err ? "a refusal without a line's end" : "a refusal without a word";
    for (; strncmp(end, "\nweir", 5) == 0 && strchr(end + 1, '\n'); end = strchr(line, '\n'))
        line = end + 1;
    if (strncmp(line, "weir", 4) != 0 || !strstr(line, ": "))
        return "a refusal that does not begin with \"weir: \"";
    const bool is_of_usage = strncmp(end + 1, "Try `weir", 9) == 0;
    if (!is_of_usage && end[1] != '\0')
        return "a refusal of more than one line";
    return is_of_usage || names_one(line, end, files) ? NULL : "a refusal that does not name the file";
}

static const char *form_fault(const struct child *child, const struct child_rules *rules)
{
    if (child->code >= 2)
        return refusal_fault(child->err, child->code == 2 ? rules->files : NULL);
    return child->code == 1 && child->out_length + child->err_length == 0 ? "exit code 1 without a word" : NULL;
}

const char *child_fault(const struct child *child, const struct child_rules *rules)
{
    if (strstr(child->err, "Sanitizer") || strstr(child->err, "runtime error:"))
        return "a sanitizer's report";
    if (child->signal == SIGXCPU || child->signal == SIGALRM || child->signal == SIGKILL)
        return "no end in time";
    if (child->signal)
        return "ended by a signal";
    if (child->code < 0 || child->code > 3)
        return "an exit code that is none of 0 to 3";
    if (child->peak_bytes > usual_bytes)
        return "more memory than any document needs";
    if (has_control_bytes(child->out, child->out_length) || has_control_bytes(child->err, child->err_length))
        return "control bytes";
    return form_fault(child, rules);
}
