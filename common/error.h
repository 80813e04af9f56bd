// The way in which all functions report errors.
//
// A function that can fail because of its input or its machine takes a `struct error *` as its last parameter. On
// failure it returns NULL or false, and leaves one sentence in the error. The sentence names the thing and the limit
// that it exceeded, in the user's words:
//
//     plan.json: stages[2].devices[0]: device 7 is not in the cluster (0 to 3)
//
// Callers may put the place in front, but do not change the rest. The first error is kept: setting another one has
// no effect. A mistake of the calling code (a NULL, a range past the end) is an assert, not an error.
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stdbool.h>
#include <stddef.h>

// The exit code of a program.
enum error_kind {
    ERROR_NONE = 0,
    ERROR_ANSWER = 1,   // the work was done, and the answer is no: does not fit, cannot run, differs
    ERROR_INPUT = 2,    // usage or input
    ERROR_MACHINE = 3,  // I/O, memory, a deadline, a rank
};

struct error {
    enum error_kind kind;
    bool lacks_memory;  // set by error_no_memory(): the input that could not be read may be valid
    bool is_late;       // a search found no answer before its deadline; a longer search may find one
    bool names_place;   // the sentence begins with the file or option that it is about
    char text[500];     // longer sentences are cut at the end
};

// Sets an error of kind ERROR_INPUT unless one is already set. Returns false, so that callers can write `return
// error_set(...)`.
bool error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same for a sentence that begins with the file or option that it is about.
bool error_named(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same as error_set() with a given kind.
bool error_set_kind(struct error *error, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Copies another error completely, unless one is already set. Returns false.
bool error_hand_on(struct error *error, const struct error *why);

// Sets "no memory for WHAT", of kind ERROR_MACHINE. Returns false.
bool error_no_memory(struct error *error, const char *what);

// Puts "place: " in front of the sentence. Returns false.
bool error_at(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same for a file or option, unless the sentence names its own already.
bool error_name(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// For functions that return a pointer: `return error_null(error_set(...))`. Returns NULL.
static inline void *error_null(bool is_good)
{
    (void)is_good;
    return NULL;
}

#endif
