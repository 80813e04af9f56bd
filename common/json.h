// Strict JSON: reading and writing documents.
//
// Reading. json_load() refuses everything that is not strict JSON: trailing text, leading zeros, bad UTF-8, NaN,
// repeated keys, or more than 64 levels. The error has line and column or, for keys, the path.
//
// A reader then asks an object for its keys. Anything wrong becomes one sentence with the path of the place. After
// that every question answers zero. A reader can therefore be written without checks in between, and asks once, at
// the end, whether everything was correct:
// once, at the end, whether all went well:
//
//     struct json root = json_root(document);
//     plan->ranks = json_u64(&root, "ranks", 1, 4096);
//     struct json stages = json_array(&root, "stages"), stage;
//     while (json_next(&stages, &stage)) {
//         ... json_string(&stage, "name") ...
//         json_end(&stage);              // any key not asked for is an error
//     }
//     json_end(&root);
//     if (!json_ok(document, error)) ... // plan.json: stages[2].name: is missing
//
// A `struct json` is a place in the tree, and is kept on the stack. Its parent must outlive it, since paths are
// found by walking up. Strings are borrowed from the document. The document records which keys were asked for: any
// place that refers to an object may ask, and any may call json_end().
//
// Writing. Keys are written in the order of the calls, with an indentation of two spaces. Arrays and objects that
// begin with JSON_INLINE are on one line. The same calls give the same bytes. Numbers are integers, or fractions
// with six decimals. What is written can be read again.
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

// The largest integer that a document may contain: 2^53 - 1.
#define JSON_MAX ((uint64_t)9007199254740991)

struct json_document;

struct json {
    struct json_document *document;
    const struct json *parent;
    const void *node;   // NULL after an error: all answers are then zero
    const void *next;   // in an array: the item that json_next() gives next
    const char *key;    // its key in the parent, or NULL in an array
    size_t index;       // its index in an array
    size_t next_index;  // in an array: the index of `next`
};

// Reads and parses a document, freed by json_free(). Returns NULL, with the reason, if the file cannot be read or is
// not JSON. The path "-" is standard input. `name` is put in front of every message about the document.
struct json_document *json_load(const char *path, struct error *error);
struct json_document *json_parse(const char *text, size_t length, const char *name, struct error *error);
void json_free(struct json_document *document);

struct json json_root(struct json_document *document);

// Whether an optional key is there. This counts as asking for it.
bool json_has(struct json *object, const char *key);

// The same. Also sets `value` to the place of its value.
bool json_find(const struct json *object, const char *key, struct json *value);

// Required keys. Numbers that are outside [least, most], or not integers, are errors.
uint64_t json_u64(struct json *object, const char *key, uint64_t least, uint64_t most);
const char *json_string(struct json *object, const char *key);  // "" after an error
void json_string_into(struct json *object, const char *key, char *to, size_t size);  // copies at most `size` - 1 bytes
bool json_bool(struct json *object, const char *key);
bool json_flag(struct json *object, const char *key);            // true or false, or 1 or 0, as other tools write it
double json_fraction(struct json *object, const char *key);  // from -2^53 to 2^53
bool json_null(struct json *object, const char *key);        // whether the value is null; no error if not
struct json json_object(struct json *object, const char *key);
struct json json_array(struct json *object, const char *key);

// The index of the value in `names` (NULL-terminated); the error lists the names. 0 after an error.
size_t json_choice(struct json *object, const char *key, const char *const *names);

// Iterates over an array: returns true while there is another item.
bool json_next(struct json *array, struct json *item);
size_t json_count(const struct json *array);  // number of items, or of an object's keys

// Iterates over an object's keys, in their order; each counts as asked for.
bool json_next_key(struct json *object, struct json *value);
// The same, over those that were not asked for.
bool json_next_unasked(struct json *object, struct json *value);

// The kind of the value at a place that an iteration has given; JSON_NOTHING after an error.
enum json_kind { JSON_NOTHING, JSON_NULL, JSON_TRUTH, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_kind json_kind(const struct json *place);

// The value of an array item.
uint64_t json_item_u64(struct json *item, uint64_t least, uint64_t most);
const char *json_item_string(struct json *item);
double json_item_fraction(struct json *item);
void json_item_object(struct json *item);  // an error unless it is an object
void json_item_array(struct json *item);   // an error unless it is an array

// The version of every document.
enum { DOCUMENT_VERSION = 1 };

// Checks "format" and "version".
void json_format(struct json *root, const char *format);

// Sets an error at this place, with the reader's own sentence.
void json_refuse(const struct json *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same for a key of an object.
void json_refuse_key(const struct json *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Sets an error if the object has a key that was not asked for.
void json_end(struct json *object);

// For importers of foreign formats, which count unknown keys instead: returns how many keys of this object were not
// asked for.
size_t json_unasked(const struct json *object);

// Whether all questions so far were answered without error; copies the first error.
bool json_ok(const struct json_document *document, struct error *error);

// --- writing -----------------------------------------------------------------

enum json_layout { JSON_LINES, JSON_INLINE };

enum { JSON_WRITER_LEVELS = 64 };

struct json_writer {
    struct text *text;
    unsigned depth;
    unsigned inline_from;  // depth at which JSON_INLINE began, or 0
    bool first;            // nothing has been written at this level yet
    char closing[JSON_WRITER_LEVELS];  // the closing bracket of each open level
};

// A writer that appends to `text`. `key` is NULL in arrays and at the root.
struct json_writer json_writer(struct text *text);
void json_begin_object(struct json_writer *writer, const char *key, enum json_layout layout);
void json_begin_array(struct json_writer *writer, const char *key, enum json_layout layout);
void json_close(struct json_writer *writer);  // a newline follows the root's end
// Numbers larger than JSON_MAX, which readers refuse, are refused here (text_refuse()).
void json_put_u64(struct json_writer *writer, const char *key, uint64_t value);
void json_put_string(struct json_writer *writer, const char *key, const char *value);
// The first two keys of a document.
void json_put_format(struct json_writer *writer, const char *format);
void json_put_bool(struct json_writer *writer, const char *key, bool value);
void json_put_null(struct json_writer *writer, const char *key);
// Values that no reader accepts (beyond 2^53, or not a number) become null.
void json_put_fraction(struct json_writer *writer, const char *key, double value);

// Appends `value` in quotes, with escapes. Bytes that are not UTF-8 become U+FFFD.
void json_quote(struct text *text, const char *value);

#endif
