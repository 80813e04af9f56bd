#include "common/terminal.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static void a_file_is_no_terminal(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    setenv("COLUMNS", "60", 1);
    assert_int_equal(terminal_columns(fileno(file)), 0);
    fclose(file);
}

// In a process whose terminal it is, as of a shell.
static size_t columns_there(int terminal, const char *said)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (said)
            setenv("COLUMNS", said, 1);
        else
            unsetenv("COLUMNS");
        _exit(setsid() >= 0 && ioctl(terminal, TIOCSCTTY, 0) == 0 ? (int)terminal_columns(terminal) : 255);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status);
}

static void columns_are_what_the_user_says_or_the_terminal_has(void **state)
{
    (void)state;
    int ours, theirs;
    struct winsize size = { .ws_row = 25, .ws_col = 132 };
    if (openpty(&ours, &theirs, NULL, NULL, &size) != 0)
        TEST_SKIP("this machine gives no pseudo-terminal");
    assert_int_equal(columns_there(theirs, "60"), 60);
    static const char *const no_numbers[] = { "", "0", "wide", "-5", "99999" };
    for (size_t i = 0; i < sizeof no_numbers / sizeof no_numbers[0]; i++)
        assert_int_equal(columns_there(theirs, no_numbers[i]), 132);
    assert_int_equal(columns_there(theirs, NULL), 132);
    size.ws_col = 0;
    assert_int_equal(ioctl(ours, TIOCSWINSZ, &size), 0);
    assert_int_equal(columns_there(theirs, NULL), 80);
    close(theirs);
    close(ours);
}

// As mpirun has one for each process: nobody sits at it.
static void a_terminal_of_a_launcher_is_not_read(void **state)
{
    (void)state;
    int ours, theirs;
    if (openpty(&ours, &theirs, NULL, NULL, NULL) != 0)
        TEST_SKIP("this machine gives no pseudo-terminal");
    setenv("COLUMNS", "60", 1);
    assert_true(isatty(theirs));
    assert_false(terminal_is_read(theirs));
    assert_int_equal(terminal_columns(theirs), 0);
    close(theirs);
    close(ours);
}

static void the_locale_says_which_characters_there_are(void **state)
{
    (void)state;
    setenv("LC_ALL", "C", 1);
    assert_false(terminal_speaks_utf8());
    setenv("LC_ALL", "C.UTF-8", 1);
    assert_true(terminal_speaks_utf8());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_no_terminal),
        cmocka_unit_test(columns_are_what_the_user_says_or_the_terminal_has),
        cmocka_unit_test(a_terminal_of_a_launcher_is_not_read),
        cmocka_unit_test(the_locale_says_which_characters_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
