// One line on stderr that says how far a long job is; nothing at all unless
// stderr is a terminal.
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
    uint64_t not_before_ns;  // when the line may be written next
    bool stands;             // a line is on the terminal
};

// Rewrites the line, at most ten times a second.
void progress_show(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Removes the line; call before printing anything else.
void progress_end(struct progress *progress);

#endif
