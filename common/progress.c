#include "common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/terminal.h"

static const uint64_t pause_ns = 100000000;

void progress_show(struct progress *progress, const char *format, ...)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns < progress->not_before_ns)
        return;
    progress->not_before_ns = now_ns + pause_ns;
    const int width = (int)terminal_columns(STDERR_FILENO);
    if (width == 0)
        return;

    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    // A line as wide as the terminal would wrap, and could not be erased.
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
