// One line on stderr that says how far a long job is; nothing at all unless
// stderr is a terminal.
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

// Rewrites the line, at most ten times a second.
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Removes the line; call before printing anything else.
void progress_end(void);

#endif
