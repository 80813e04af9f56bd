// One line on stderr that shows the progress of a long job. Nothing is written unless stderr is a terminal.
//
//     struct progress progress = { 0 };
//     while (...)
//         progress_show(&progress, "%zu of %zu plans", done, all);
//     progress_end(&progress);
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    uint64_t not_before_ns;  // the earliest time of the next update
    bool stands;             // a line is on the terminal now
};

// Rewrites the line, at most ten times a second.
void progress_show(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Removes the line; call before printing anything else.
void progress_end(struct progress *progress);

#endif
