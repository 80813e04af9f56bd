// A growing string, for output that is built before it is written.
//
//     struct text text = { 0 };
//     text_add(&text, "%zu stages", count);
//     if (!text_save(&text, "-", &error)) ...
//     text_clear(&text);
//
// If memory runs out, the text records that in `failed`. Further additions then do nothing, and text_save(),
// text_take() or text_ok() report it, so additions need no checks. The same is done if something cannot be expressed
// at all (text_refuse()).
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct text {
    char *data;  // NUL-terminated once anything has been added; NULL before that
    size_t length;
    size_t capacity;
    bool failed;
    bool is_refused;  // it failed, and `data` is the sentence with the reason
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_add_repeated(struct text *text, const char *unit, size_t times);
void text_add_count(struct text *text, size_t count, const char *one, const char *many);  // "1 rank", "4 ranks"
void text_refuse(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_clear(struct text *text);

// Whether the text is complete. If not, the error is the reason of the refusal with `what` in front, or that there
// is no memory for `what`.
bool text_ok(const struct text *text, const char *what, struct error *error);

// Returns the text as a string that the caller frees with free(). The text is empty after that.
char *text_take(struct text *text, struct error *error);

// Writes to a file like output_save() (output.h); "-" is standard output.
bool text_save(const struct text *text, const char *path, struct error *error);
// The same with output_replace().
bool text_replace(const struct text *text, const char *path, struct error *error);

// Reads a whole file; "-" is standard input. Refuses folders and more than 1 GiB. The caller frees the result. A NUL
// follows its last byte.
char *text_load(const char *path, size_t *length, struct error *error);

#endif
