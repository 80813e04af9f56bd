#include "device/shared_memory.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { BYTES = 100000 };

static void assert_not_found(const struct shared_memory_name *name, const char *reason)
{
    struct error error = { 0 };
    char sentence[200], place[64];
    snprintf(place, sizeof place, "/proc/%u/fd/%d", name->process, name->file);
    snprintf(sentence, sizeof sentence, "%s is no memory to share (%s): who made it has ended, or is on another "
             "machine or in another container", place, reason);
    assert_int_equal(shared_memory_find(name, &error), -1);
    assert_error(error, sentence);
    assert_int_equal(error.kind, ERROR_MACHINE);
}

// The exit status of a child that does something.
static int status_of(int (*does)(const struct shared_memory_name *name), const struct shared_memory_name *name)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(does(name));
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int writes_there(const struct shared_memory_name *name)
{
    struct error error = { 0 };
    close(name->file);  // which it has of its parent
    const int file = shared_memory_find(name, &error);
    char *place = file >= 0 ? shared_memory_map(file, BYTES, &error) : NULL;
    if (!place || place[BYTES - 1] != 1)
        return 1;
    place[BYTES - 2] = 2;
    return 0;
}

static void another_process_finds_it(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct shared_memory_name name;
    const int file = shared_memory_create(&name, &error);
    char *place = file >= 0 ? shared_memory_map(file, BYTES, &error) : NULL;
    assert_good(place, error);
    place[BYTES - 1] = 1;
    assert_int_equal(status_of(writes_there, &name), 0);
    assert_int_equal(place[BYTES - 2], 2);
    munmap(place, BYTES);
    close(file);
    assert_not_found(&name, "No such file or directory");
}

static void something_else_is_not_taken_for_it(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct shared_memory_name name, other;
    assert_good(shared_memory_create(&name, &error) >= 0, error);
    close(name.file);
    assert_int_equal(shared_memory_create(&other, &error), name.file);
    assert_not_found(&name, "it is something else");
    close(other.file);
    assert_int_equal(dup2(STDIN_FILENO, name.file), name.file);
    assert_int_equal(shared_memory_find(&name, &(struct error){ 0 }), -1);
    close(name.file);
}

static int has_little_room(const struct shared_memory_name *name)
{
    const struct rlimit little = { .rlim_cur = BYTES, .rlim_max = BYTES };
    struct error first = { 0 }, second = { 0 };
    static const char sentence[] = "no memory for processes to share: File too large";
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &little) != 0 || !shared_memory_reserve(name->file, 10, BYTES - 10, &first))
        return 1;
    return shared_memory_reserve(name->file, BYTES, 1, &first) || shared_memory_map(name->file, BYTES + 1, &second)
        || strcmp(first.text, sentence) != 0 || strcmp(second.text, sentence) != 0 || first.kind != ERROR_MACHINE;
}

static void where_there_is_none_it_is_said(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct shared_memory_name name;
    assert_good(shared_memory_create(&name, &error) >= 0, error);
    assert_int_equal(status_of(has_little_room, &name), 0);
    close(name.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_finds_it),
        cmocka_unit_test(something_else_is_not_taken_for_it),
        cmocka_unit_test(where_there_is_none_it_is_said),
    };
    return cmocka_run_group_tests_name("memory that processes share", tests, NULL, NULL);
}
