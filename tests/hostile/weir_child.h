// A `weir` command in a process of its own, under limits, and whether it ended as commands must.
//
//     const char *words[] = { "weir", "check", "plan.json", NULL }, *files[] = { "plan.json", NULL };
//     struct child child = { 0 };
//     child_run(words, "/tmp/folder", &child);
//     const char *fault = child_fault(&child, &(struct child_rules){ .files = files });
//     if (fault) ...
//     child_clear(&child);
//
// The process is forked and calls weir's main() in the test program's own copy of it, which takes a
// tenth of the time of starting the program, and lets a test count and fail allocations from main() on.
#ifndef TESTS_HOSTILE_WEIR_CHILD_H
#define TESTS_HOSTILE_WEIR_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct child {
    int code;             // the exit code, or -1
    int signal;           // that ended it, or 0
    uint64_t peak_bytes;  // the most memory it had in use
    char *out, *err;      // what it wrote, NUL-terminated; no more than the first MiB of each
    size_t out_length, err_length;
};

struct child_rules {
    const char *const *files;  // of these a refusal names one; NULL: nothing in particular
};

// weir's main(), which the build renames.
int weir_main(int count, char **arguments);

// Runs a NULL-terminated command in a folder; `prepare` is called in the child right before, if there is one.
void child_run(const char *const words[], const char *folder, struct child *child);
void child_run_prepared(const char *const words[], const char *folder, void (*prepare)(void), struct child *child);

// What is wrong about how it ended, in a few words; NULL: nothing.
const char *child_fault(const struct child *child, const struct child_rules *rules);

void child_clear(struct child *child);

// The words of a line, at most `room` - 1 and then NULL; they are cut out of `line`, which is changed.
size_t child_words(char *line, const char *words[], size_t room);

#endif
