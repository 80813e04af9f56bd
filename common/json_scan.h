// A streaming JSON reader, for files too large to hold in memory. Values are taken one after the other, in the order
// of the file, and unwanted ones are skipped.
//
//     struct json_scan scan = { .read = read_some, .source = file, .name = "run.json" };
//     bool first = true;
//     char key[16];
//     json_scan_begin(&scan, '{');
//     while (json_scan_key(&scan, &first, key, sizeof key))
//         if (strcmp(key, "ts") == 0) json_scan_number(&scan, number, sizeof number);
//         else json_scan_skip(&scan);
//     if (!json_scan_end(&scan, error)) ...
//
// An error is stored as one sentence, and after that no more values come. The reader is tolerant with other tools'
// files if it does not matter: strings may contain raw control characters and any bytes. Leading zeros and repeated
// keys are accepted.
#ifndef COMMON_JSON_SCAN_H
#define COMMON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct text;

enum { JSON_SCAN_LEVELS = 64 };

struct json_scan {
    // Reads up to `size` bytes into `buffer`. Returns the number read, 0 at the end. A reader that fails sets the
    // error.
    size_t (*read)(void *source, char *buffer, size_t size, struct error *error);
    void *source;
    const char *name;  // put in front of every message
    struct error error;
    char buffer[16384];
    size_t at, length;
    uint64_t passed;  // number of bytes before the buffer
    struct text *copy;   // of json_scan_copy(), while it runs
    size_t copy_from;
};

// The first byte of the next value, which tells its kind: { [ " - 0 to 9 t f n; 0 if there is none. It may also be
// called after the end of a value.
char json_scan_peek(struct json_scan *scan);

// Enters an object or array, given its bracket. Returns false, and sets an error, if something else comes.
bool json_scan_begin(struct json_scan *scan, char bracket);
// Reads the next key of an object, cut to `size`. Returns false once the object has ended. `*first` is true at its
// beginning.
bool json_scan_key(struct json_scan *scan, bool *first, char *key, size_t size);
// Whether an array has another item. If so, the item must be taken.
bool json_scan_item(struct json_scan *scan, bool *first);

// Takes a string, cut to `size` including its terminator; a number as it is written, or empty if that is longer; or
// any value. If something else comes, that is an error.
void json_scan_string(struct json_scan *scan, char *buffer, size_t size);
void json_scan_number(struct json_scan *scan, char *buffer, size_t size);
void json_scan_skip(struct json_scan *scan);
// Appends the value as it is written. If memory runs out, text->failed is set.
void json_scan_copy(struct json_scan *scan, struct text *text);

// Sets an error at the current position. Returns false.
bool json_scan_refuse(struct json_scan *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether there was no error and nothing but blanks follows. If not, copies the error.
bool json_scan_end(struct json_scan *scan, struct error *error);

#endif
