#include "partitioner/integer/integer.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"

const char *const integer_status_names[] = { "optimal", "feasible", "infeasible", "stopped", NULL };

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

// Whether the solver is in ../libexec, seen from the folder of this program or library.
static bool is_beside(const char *file, char path[PATH_MAX])
{
    const char *slash = strrchr(file, '/');
    const int folder = slash ? (int)(slash - file) : 0;
    return slash && snprintf(path, PATH_MAX, "%.*s/../libexec/weir-glpk", folder, file) < PATH_MAX && is_program(path);
}

// A program that loads libweir.so, such as Python, can be anywhere; then the library's own path is used.
static bool find_solver(char path[PATH_MAX], struct error *error)
{
    const char *folder = getenv("WEIR_LIBEXEC");
    if (folder && snprintf(path, PATH_MAX, "%s/weir-glpk", folder) < PATH_MAX && is_program(path))
        return true;
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, PATH_MAX - 1);
    program[length > 0 ? length : 0] = '\0';
    Dl_info library;
    if (is_beside(program, path)
        || (dladdr(integer_status_names, &library) && library.dli_fname && is_beside(library.dli_fname, path)))
        return true;
    return error_set_kind(error, ERROR_MACHINE,
                          "weir-glpk was not found in $WEIR_LIBEXEC or ../libexec (it is built where libglpk-dev is"
                          " installed)");
}

// A file without a name, with `text` as its content.
static int file_of(const struct text *text, struct error *error)
{
    const int file = memfd_create("weir-glpk", MFD_CLOEXEC);
    size_t done = 0;
    while (file >= 0 && text && done < text->length) {
        const ssize_t wrote = write(file, text->data + done, text->length - done);
        if (wrote < 0 && errno != EINTR) {
            close(file);
            error_set_kind(error, ERROR_MACHINE, "the model for weir-glpk cannot be written: %s", strerror(errno));
            return -1;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (file < 0)
        error_set_kind(error, ERROR_MACHINE, "the model for weir-glpk cannot be written: %s", strerror(errno));
    else
        lseek(file, 0, SEEK_SET);
    return file;
}

// The files that the solver reads and writes; -1: none.
struct files {
    int in, out, start;
};

enum { START_FILE = 3 };  // where the solver finds it

// --- the solver's process -------------------------------------------------------------

// The longest time between two looks for an interrupt, and the time that a solver has to end once it is told to.
#define LOOK_MS 20
#define FAREWELL_NS 300000000u

static bool must_end(struct integer_limits limits)
{
    return (limits.interrupted && *limits.interrupted) || (limits.until_ns > 0 && clock_now_ns() >= limits.until_ns);
}

// A solver that is told to end prints the best answer it has, if it can. Within the relaxation it does not react,
// and is killed. A signal that comes just before a wait would not end it, so no wait is long.
static pid_t wait_or_tell(pid_t child, struct integer_limits limits, int *status, bool *was_asked)
{
    const bool may_be_asked = limits.interrupted || limits.until_ns > 0;
    uint64_t kill_ns = 0;
    pid_t ended;
    for (int ms = 1; (ended = waitpid(child, status, may_be_asked ? WNOHANG : 0)) == 0;) {
        if (!*was_asked && must_end(limits)) {
            *was_asked = true;
            kill_ns = clock_now_ns() + FAREWELL_NS;
            kill(child, SIGTERM);
        } else if (*was_asked && clock_now_ns() > kill_ns) {
            kill(child, SIGKILL);
        }
        poll(NULL, 0, ms);
        ms = 2 * ms < LOOK_MS ? 2 * ms : LOOK_MS;
    }
    return ended;
}

// Whether the solver ended well. If it has no answer because of a signal, to both processes (Ctrl-C) or to this one,
// that is not its fault.
static bool judge_end(int status, struct integer_limits limits, bool was_asked, bool *interrupted, struct error *error)
{
    *interrupted = WIFSIGNALED(status) && (was_asked || WTERMSIG(status) == SIGINT);
    if (*interrupted)
        return true;
    char memory[NUMBER_SIZE];
    if (WIFSIGNALED(status))
        return error_set_kind(error, ERROR_MACHINE, "weir-glpk was ended by signal %d (%s); it may take %llu s and %s",
                              WTERMSIG(status), strsignal(WTERMSIG(status)), (unsigned long long)limits.seconds,
                              bytes_format(limits.memory_bytes, memory));
    // 2: it did not understand the model, which its answer says.
    if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2)
        return error_set_kind(error, ERROR_MACHINE, "weir-glpk ended with exit code %d", WEXITSTATUS(status));
    return true;
}

static bool start_solver(const char *path, struct integer_limits limits, bool relaxed, struct files with,
                         pid_t *child, struct error *error)
{
    char seconds[32], memory[32];
    snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)limits.seconds);
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)limits.memory_bytes);
    char program[PATH_MAX];
    snprintf(program, sizeof program, "%s", path);
    char solve[] = "solve", relax[] = "relax", start[32];
    snprintf(start, sizeof start, "/proc/self/fd/%d", START_FILE);
    char *arguments[] = { program, seconds, memory, relaxed ? relax : solve, with.start < 0 ? NULL : start, NULL };

    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return error_no_memory(error, "weir-glpk");
    posix_spawn_file_actions_adddup2(&files, with.in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, with.out, STDOUT_FILENO);
    if (with.start >= 0)
        posix_spawn_file_actions_adddup2(&files, with.start, START_FILE);
    const int failed = posix_spawn(child, path, &files, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed ? error_set_kind(error, ERROR_MACHINE, "%s cannot be started: %s", path, strerror(failed)) : true;
}

static bool spawn_and_wait(const char *path, struct integer_limits limits, bool relaxed, struct files with,
                           bool *interrupted, struct error *error)
{
    pid_t child;
    if (!start_solver(path, limits, relaxed, with, &child, error))
        return false;
    int status;
    bool was_asked = false;
    while (wait_or_tell(child, limits, &status, &was_asked) < 0)
        if (errno != EINTR)
            return error_set_kind(error, ERROR_MACHINE, "weir-glpk was lost: %s", strerror(errno));
    return judge_end(status, limits, was_asked, interrupted, error);
}

// --- its answer -----------------------------------------------------------------------

static bool read_values(struct json *root, const char *key, struct integer_value **to, size_t *count,
                        struct error *error)
{
    struct json values = json_array(root, key), item;
    *to = calloc(json_count(&values) + 1, sizeof **to);
    if (!*to)
        return error_no_memory(error, "the solver's answer");
    while (json_next(&values, &item)) {
        struct integer_value *value = &(*to)[(*count)++];
        snprintf(value->name, sizeof value->name, "%s", json_string(&item, "name"));
        value->value = json_fraction(&item, "value");
        json_end(&item);
    }
    return true;
}

static bool read_answer(int file, struct integer_answer *answer, struct error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return false;
    struct json_document *document = json_parse(text, length, "weir-glpk's answer", error);
    free(text);
    if (!document)
        return false;
    struct json root = json_root(document);
    json_format(&root, "weir.integer");
    if (json_has(&root, "error")) {
        error_set_kind(error, ERROR_INPUT, "weir-glpk: %s", json_string(&root, "error"));
        json_free(document);
        return false;
    }
    answer->status = (enum integer_status)json_choice(&root, "status", integer_status_names);
    answer->value = json_fraction(&root, "value");
    answer->bound = json_fraction(&root, "bound");
    bool good = read_values(&root, "values", &answer->values, &answer->value_count, error)
             && read_values(&root, "duals", &answer->duals, &answer->dual_count, error);
    json_end(&root);
    good = good && json_ok(document, error);
    json_free(document);
    return good;
}

bool integer_solve(const struct integer_question *question, struct integer_limits limits,
                   struct integer_answer *answer, struct error *error)
{
    *answer = (struct integer_answer){ 0 };
    if (question->model->failed || (question->start && question->start->failed))
        return error_no_memory(error, "the model for weir-glpk");
    char path[PATH_MAX];
    if (!find_solver(path, error))
        return false;
    struct files files = { file_of(question->model, error), -1, -1 };
    files.out = files.in < 0 ? -1 : file_of(NULL, error);
    files.start = files.out < 0 || !question->start ? -1 : file_of(question->start, error);
    bool interrupted = false;
    bool good = files.out >= 0 && (files.start >= 0 || !question->start)
             && spawn_and_wait(path, limits, question->relaxed, files, &interrupted, error)
             && (interrupted || read_answer(files.out, answer, error));
    if (interrupted)
        answer->status = INTEGER_STOPPED;
    const int open[] = { files.in, files.out, files.start };
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        if (open[i] >= 0)
            close(open[i]);
    if (!good)
        integer_answer_clear(answer);
    return good;
}

void integer_answer_clear(struct integer_answer *answer)
{
    free(answer->values);
    free(answer->duals);
    *answer = (struct integer_answer){ 0 };
}
