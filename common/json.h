// Strict JSON: documents in, documents out.
//
// Reading. json_load() refuses what the JSON grammar refuses (trailing text,
// leading zeros, bad UTF-8, NaN, repeated keys, more than 64 levels) with line
// and column, or, for keys, the path. A reader then asks an object for its keys; whatever is wrong
// becomes one sentence with the path of the place, and from then on every
// question answers zero, so that a reader is written straight down and asks
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
// A `struct json` is a place in the tree and lives on the stack; its parent
// must outlive it (paths are found by walking up). Strings are borrowed from
// the document. Which keys were asked for is remembered in the document: any
// place that stands for an object may ask, and any may say json_end().
//
// Writing. Keys in the order they are written, two spaces of indent, arrays and
// objects on one line where begun with JSON_INLINE: the same calls give the
// same bytes. Numbers are whole, or fractions with six decimals. What is written can be read.
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

// The largest whole number a document may hold: 2^53 - 1.
#define JSON_MAX ((uint64_t)9007199254740991)

struct json_document;

struct json {
    struct json_document *document;
    const struct json *parent;
    const void *node;   // NULL after an error: all answers are zero
    const void *next;   // of an array: the item json_next() gives next
    const char *key;    // how the parent knows it, or NULL in an array
    size_t index;       // which item of an array it is
    size_t next_index;  // of an array: which item `next` is
};

// NULL, with the reason, when the file cannot be read or is not JSON. "-" is
// standard input. `name` stands in front of every message about the document.
struct json_document *json_load(const char *path, struct error *error);
struct json_document *json_parse(const char *text, size_t length, const char *name, struct error *error);
void json_free(struct json_document *document);

struct json json_root(struct json_document *document);

// Whether an optional key is there. Counts as asking for it.
bool json_has(struct json *object, const char *key);

// The same, and where its value stands.
bool json_find(const struct json *object, const char *key, struct json *value);

// Required keys. Numbers out of [least, most], or not whole, are errors.
uint64_t json_u64(struct json *object, const char *key, uint64_t least, uint64_t most);
const char *json_string(struct json *object, const char *key);  // "" after an error
void json_string_into(struct json *object, const char *key, char *to, size_t size);  // of at most `size` - 1 bytes
bool json_bool(struct json *object, const char *key);
bool json_flag(struct json *object, const char *key);            // true or false, or 1 or 0 for it, as others write
double json_fraction(struct json *object, const char *key);  // from -2^53 to 2^53
bool json_null(struct json *object, const char *key);        // whether the value is null; no error if not
struct json json_object(struct json *object, const char *key);
struct json json_array(struct json *object, const char *key);

// One of `names` (NULL-terminated); the error lists them. 0 after an error.
size_t json_choice(struct json *object, const char *key, const char *const *names);

// Walks an array: true while there is another item.
bool json_next(struct json *array, struct json *item);
size_t json_count(const struct json *array);  // of items, or of an object's keys

// Walks an object's keys, in the order in which they stand; each counts as asked for.
bool json_next_key(struct json *object, struct json *value);

// What stands at a place that a walk has given; JSON_NOTHING after an error.
enum json_kind { JSON_NOTHING, JSON_NULL, JSON_TRUTH, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_kind json_kind(const struct json *place);

// The value of an array's item itself.
uint64_t json_item_u64(struct json *item, uint64_t least, uint64_t most);
const char *json_item_string(struct json *item);
double json_item_fraction(struct json *item);
void json_item_object(struct json *item);  // an error unless it is an object
void json_item_array(struct json *item);   // an error unless it is an array

// Checks "format" and "version" (1 to newest); returns the version.
uint64_t json_format(struct json *root, const char *format, uint64_t newest);

// An error at this place, in the words of the reader's own check.
void json_refuse(const struct json *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same at a key of an object.
void json_refuse_key(const struct json *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// An error if the object has a key nobody asked for.
void json_end(struct json *object);

// Importers of foreign formats count unknown keys instead: returns how many
// keys of this object nobody asked for.
size_t json_unasked(const struct json *object);

// Whether all questions so far had good answers; copies the first error.
bool json_ok(const struct json_document *document, struct error *error);

// --- writing -----------------------------------------------------------------

enum json_layout { JSON_LINES, JSON_INLINE };

enum { JSON_WRITER_LEVELS = 64 };

struct json_writer {
    struct text *text;
    unsigned depth;
    unsigned inline_from;  // depth at which JSON_INLINE began, or 0
    bool first;            // nothing written at this level yet
    char closing[JSON_WRITER_LEVELS];  // what ends each open level
};

// A writer that adds to `text`. `key` is NULL in arrays and at the root.
struct json_writer json_writer(struct text *text);
void json_begin_object(struct json_writer *writer, const char *key, enum json_layout layout);
void json_begin_array(struct json_writer *writer, const char *key, enum json_layout layout);
void json_close(struct json_writer *writer);  // a newline follows the root's end
// More than JSON_MAX, which readers refuse, is refused here (text_refuse()).
void json_put_u64(struct json_writer *writer, const char *key, uint64_t value);
void json_put_string(struct json_writer *writer, const char *key, const char *value);
void json_put_bool(struct json_writer *writer, const char *key, bool value);
void json_put_null(struct json_writer *writer, const char *key);
// What no reader takes (past 2^53, or no number at all) becomes null.
void json_put_fraction(struct json_writer *writer, const char *key, double value);

// Adds `value` in quotes, with escapes; bytes that are not UTF-8 become U+FFFD.
void json_quote(struct text *text, const char *value);

#endif
