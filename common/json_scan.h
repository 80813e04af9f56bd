// JSON as it comes, for files too large to hold: values are taken one after the
// other, in the order of the file, and what nobody wants is skipped.
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
// Whatever is wrong is remembered as one sentence, and from then on there is
// nothing more to come. Other people's files are not held to the letter where it
// does not matter: raw control characters and any bytes are let through in strings,
// and so are leading zeros, and repeated keys.
#ifndef COMMON_JSON_SCAN_H
#define COMMON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { JSON_SCAN_LEVELS = 64 };

struct json_scan {
    // Puts up to `size` bytes into `buffer`; how many, 0 at the end. A reader that fails sets the error.
    size_t (*read)(void *source, char *buffer, size_t size, struct error *error);
    void *source;
    const char *name;  // in front of every message
    struct error error;
    char buffer[16384];
    size_t at, length;
    uint64_t passed;  // bytes before the buffer
};

// The first byte of the value that comes, which says what it is: { [ " - 0 to 9 t f n;
// 0 where there is none. What comes after a value's end may be asked too.
char json_scan_peek(struct json_scan *scan);

// Enters an object or array, given its bracket; false, and an error, if something else comes.
bool json_scan_begin(struct json_scan *scan, char bracket);
// The next key of an object, cut to `size`; false once the object has ended. `*first` is true at its beginning.
bool json_scan_key(struct json_scan *scan, bool *first, char *key, size_t size);
// Whether an array has another item, which must be taken then.
bool json_scan_item(struct json_scan *scan, bool *first);

// Takes a string, cut to `size` with its terminator; a number as it is written, empty if it is longer;
// any value. An error if something else comes.
void json_scan_string(struct json_scan *scan, char *buffer, size_t size);
void json_scan_number(struct json_scan *scan, char *buffer, size_t size);
void json_scan_skip(struct json_scan *scan);

// An error at the place that was reached. Returns false.
bool json_scan_refuse(struct json_scan *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether all went well and nothing but blanks follows.
bool json_scan_end(struct json_scan *scan, struct error *error);

#endif
