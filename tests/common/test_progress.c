#include "common/progress.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/test.h"

// Shows one line and one too early, and ends, with stderr at `file`.
static void show_at(int file)
{
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    struct progress progress = { 0 };
    progress_show(&progress, "%d of %d plans", 1, 2);
    progress.not_before_ns = UINT64_MAX;
    progress_show(&progress, "%d of %d plans", 2, 2);
    progress_end(&progress);
    progress_end(&progress);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void nothing_is_shown_where_no_terminal_is(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    show_at(fileno(file));
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
}

// A terminal hands its output on in pieces.
static void read_shown(int file, char *shown, size_t length)
{
    struct pollfd ready = { .fd = file, .events = POLLIN };
    while (length > 0 && poll(&ready, 1, 10000) == 1) {
        const ssize_t got = read(file, shown, length);
        if (got <= 0)
            return;
        shown += got;
        length -= (size_t)got;
    }
}

static void a_terminal_shows_one_line_and_keeps_none(void **state)
{
    (void)state;
    int ours, theirs;
    const struct winsize size = { .ws_row = 25, .ws_col = 8 };
    if (openpty(&ours, &theirs, NULL, NULL, &size) != 0)
        TEST_SKIP("this machine gives no pseudo-terminal");
    unsetenv("COLUMNS");
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        // The line is cut at the terminal's width.
        static const char expected[] = "\r1 of 2 \033[K\r\033[K";
        char shown[sizeof expected] = "";
        if (setsid() < 0 || ioctl(theirs, TIOCSCTTY, 0) != 0)
            _exit(2);
        show_at(theirs);
        read_shown(ours, shown, strlen(expected));
        _exit(strcmp(shown, expected) != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(theirs);
    close(ours);
}

static void the_next_line_waits_a_tenth_of_a_second(void **state)
{
    (void)state;
    struct progress progress = { 0 };
    const uint64_t before = clock_now_ns();
    progress_show(&progress, "1");
    assert_true(progress.not_before_ns >= before + 100000000);
    assert_true(progress.not_before_ns <= clock_now_ns() + 100000000);
    progress_end(&progress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_shown_where_no_terminal_is),
        cmocka_unit_test(the_next_line_waits_a_tenth_of_a_second),
        cmocka_unit_test(a_terminal_shows_one_line_and_keeps_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
