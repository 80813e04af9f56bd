// One way to say what went wrong.
//
// A function that can fail through its input or its machine takes a
// `struct error *` last, returns NULL or false, and leaves one sentence in it
// that names the thing and the limit it broke, in the user's words:
//
//     plan.json: stages[2].devices[0]: device 7 is not in the cluster (0 to 3)
//
// Callers on the way up may put the place in front; nobody rewrites the end.
// The first error wins: setting one where another stands keeps the first.
// A caller's mistake (a NULL, a range past the end) is an assert, not an error.
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stdbool.h>

// What a program should exit with.
enum error_kind {
    ERROR_NONE = 0,
    ERROR_ANSWER = 1,   // done, and the answer is no: does not fit, cannot run, differs
    ERROR_INPUT = 2,    // usage or input
    ERROR_MACHINE = 3,  // I/O, memory, a deadline, a rank
};

struct error {
    enum error_kind kind;
    bool lacks_memory;  // by error_no_memory(): what could not be read may be sound
    char text[500];  // longer sentences are cut at the end
};

// Sets an error of kind ERROR_INPUT unless one is set already. Returns false,
// so that `return error_set(...)` reads as it should.
bool error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same with a kind of one's own.
bool error_set_kind(struct error *error, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// "no memory for WHAT", of kind ERROR_MACHINE.
bool error_no_memory(struct error *error, const char *what);

// Puts "place: " in front of what is already there.
bool error_at(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
