#include "common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"

static const uint64_t pause_ns = 100000000;

// The columns of the terminal at stderr, or 0 when it is none.
static int terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDERR_FILENO))
        return 0;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void progress_show(struct progress *progress, const char *format, ...)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns < progress->not_before_ns)
        return;
    progress->not_before_ns = now_ns + pause_ns;
    const int width = terminal_width();
    if (width == 0)
        return;

    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    // A line as wide as the terminal would wrap, and could not be taken back.
    fprintf(stderr, "\r%.*s\033[K", width - 1, line);
    fflush(stderr);
    progress->stands = true;
}

void progress_end(struct progress *progress)
{
    if (progress->stands)
        fputs("\r\033[K", stderr);
    progress->stands = false;
}
