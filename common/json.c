#include "common/json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_syntax.h"
#include "common/utf8.h"

// Whether a key was asked for is recorded in `valueint` of its node. Nothing here reads that as a number (it cannot
// hold our numbers anyway).
struct json_document {
    cJSON *root;
    struct error error;  // the first error
    char name[];
};

static const cJSON *node_of(const struct json *place)
{
    return place->document->error.kind == ERROR_NONE ? place->node : NULL;
}

// --- paths in messages -------------------------------------------------------------

// A key in a message: in quotes, and cut to a length that fits into a sentence.
static void add_key(struct text *text, const char *key)
{
    char few[64];
    size_t length = 0;
    while (key[length] != '\0' && length < sizeof few - 8) {
        const size_t next = utf8_length(key + length, 4 < strlen(key + length) ? 4 : strlen(key + length));
        length += next > 0 ? next : 1;
    }
    memcpy(few, key, length);
    snprintf(few + length, sizeof few - length, "%s", key[length] ? "..." : "");
    json_quote(text, few);
}

static void add_step(struct text *path, const char *key)
{
    const bool plain = *key != '\0'
                    && key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == '\0';
    if (plain && strlen(key) < 64) {
        text_add(path, "%s%s", path->length > 0 ? "." : "", key);
    } else {
        text_add(path, "[");
        add_key(path, key);
        text_add(path, "]");
    }
}

// A path such as stages[2].devices[0].
static void add_path(struct text *path, const struct json *place)
{
    if (!place->parent)
        return;
    add_path(path, place->parent);
    if (place->key)
        add_step(path, place->key);
    else
        text_add(path, "[%zu]", place->index);
}

static void refuse(const struct json *place, const char *key, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void refuse(const struct json *place, const char *key, const char *format, va_list arguments)
{
    struct error *error = &place->document->error;
    if (error->kind != ERROR_NONE)
        return;
    char sentence[sizeof error->text];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    struct text path = { 0 };
    add_path(&path, place);
    if (key)
        add_step(&path, key);
    text_add(&path, "%s%s", path.length > 0 ? ": " : "", sentence);
    if (path.failed)
        error_no_memory(error, place->document->name);
    else
        error_named(error, "%s: %s", place->document->name, path.data);
    text_clear(&path);
}

void json_refuse(const struct json *place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    refuse(place, NULL, format, arguments);
    va_end(arguments);
}

void json_refuse_key(const struct json *object, const char *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    refuse(object, key, format, arguments);
    va_end(arguments);
}

// --- documents -----------------------------------------------------------------------

static struct json child_of(const struct json *parent, const cJSON *node, size_t index)
{
    return (struct json){ .document = parent->document, .parent = parent, .node = node,
                          .next = cJSON_IsArray(node) || cJSON_IsObject(node) ? node->child : NULL, .key = node->string,
                          .index = index };
}

static int by_name_then_place(const void *a, const void *b)
{
    const cJSON *const *left = a, *const *right = b;
    const int names = strcmp((*left)->string, (*right)->string);
    return names != 0 ? names : (*left)->valueint - (*right)->valueint;
}

// Sorts an object's keys, so that equal ones are neighbours, and refuses the first repeated one. `keys` has room for
// all of them.
static void check_keys(const struct json *object, const cJSON **keys)
{
    int count = 0;
    for (cJSON *node = ((const cJSON *)object->node)->child; node; node = node->next) {
        node->valueint = count;
        keys[count++] = node;
    }
    qsort(keys, (size_t)count, sizeof keys[0], by_name_then_place);
    const cJSON *twice = NULL;
    for (int i = 1; i < count; i++)
        if (strcmp(keys[i - 1]->string, keys[i]->string) == 0 && (!twice || keys[i]->valueint < twice->valueint))
            twice = keys[i];
    if (twice) {
        struct text key = { 0 };
        add_key(&key, twice->string);
        json_refuse(object, "key %s stands twice", key.failed ? "" : key.data);
        text_clear(&key);
    }
}

// Checks what the grammar does not cover: repeated keys, and numbers that no double can hold. `keys` has room for
// the keys of the largest object. The recursion is at most 64 levels deep, which the syntax check has ensured.
static void check_tree(const struct json *place, const cJSON **keys)
{
    const cJSON *node = place->node;
    if (cJSON_IsNumber(node) && !isfinite(node->valuedouble))
        json_refuse(place, "the number is too large");
    if (cJSON_IsObject(node))
        check_keys(place, keys);
    size_t index = 0;
    for (cJSON *child = node->child; child && place->document->error.kind == ERROR_NONE; child = child->next) {
        const struct json below = child_of(place, child, index++);
        check_tree(&below, keys);
        child->valueint = 0;  // not asked for yet
    }
}

static size_t largest_object(const cJSON *node)
{
    size_t largest = 0, members = 0;
    for (const cJSON *child = node->child; child; child = child->next) {
        const size_t below = largest_object(child);
        largest = below > largest ? below : largest;
        members++;
    }
    return cJSON_IsObject(node) && members > largest ? members : largest;
}

static bool check_document(struct json_document *document, struct error *error)
{
    const cJSON **keys = calloc(largest_object(document->root) + 1, sizeof(const cJSON *));
    if (!keys)
        return error_no_memory(error, document->name);
    const struct json root = json_root(document);
    check_tree(&root, keys);
    free(keys);
    return json_ok(document, error);
}

struct json_document *json_parse(const char *text, size_t length, const char *name, struct error *error)
{
    if (!json_syntax_check(text, length, name, error))
        return NULL;
    struct json_document *document = calloc(1, sizeof *document + strlen(name) + 1);
    if (!document)
        return error_null(error_no_memory(error, name));
    strcpy(document->name, name);
    document->root = cJSON_ParseWithLengthOpts(text, length, NULL, false);
    const bool good = document->root ? check_document(document, error) : error_no_memory(error, name);
    if (!good) {
        json_free(document);
        return NULL;
    }
    return document;
}

struct json_document *json_load(const char *path, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return NULL;
    struct json_document *document = json_parse(text, length, strcmp(path, "-") == 0 ? "standard input" : path, error);
    free(text);
    return document;
}

void json_free(struct json_document *document)
{
    if (document)
        cJSON_Delete(document->root);
    free(document);
}

struct json json_root(struct json_document *document)
{
    const cJSON *root = document->root;
    const bool holds_some = cJSON_IsArray(root) || cJSON_IsObject(root);
    return (struct json){ .document = document, .node = root, .next = holds_some ? root->child : NULL };
}

bool json_ok(const struct json_document *document, struct error *error)
{
    if (document->error.kind == ERROR_NONE)
        return true;
    return error_hand_on(error, &document->error);
}

// --- asking ---------------------------------------------------------------------------

static const char *kind_of(const cJSON *node)
{
    return cJSON_IsString(node)   ? "a string"
         : cJSON_IsNumber(node)   ? "a number"
         : cJSON_IsBool(node)     ? "true or false"
         : cJSON_IsNull(node)     ? "null"
         : cJSON_IsArray(node)    ? "a list"
                                  : "an object";
}

// The value of a key, which counts as asked for; NULL if it is not there.
static const cJSON *look_up(const struct json *object, const char *key)
{
    const cJSON *node = node_of(object);
    if (node && !cJSON_IsObject(node)) {
        json_refuse(object, "is %s, not an object", kind_of(node));
        return NULL;
    }
    cJSON *child = node ? node->child : NULL;
    while (child && strcmp(child->string, key) != 0)
        child = child->next;
    if (child)
        child->valueint = 1;
    return child;
}

bool json_has(struct json *object, const char *key)
{
    return look_up(object, key) != NULL;
}

bool json_find(const struct json *object, const char *key, struct json *value)
{
    const cJSON *node = look_up(object, key);
    if (node)
        *value = child_of(object, node, 0);
    return node != NULL;
}

// The place of a required key. If it is missing, its node is NULL, and an error is set.
static struct json member(const struct json *object, const char *key)
{
    const cJSON *node = look_up(object, key);
    if (node)
        return child_of(object, node, 0);
    json_refuse_key(object, key, "is missing");
    return (struct json){ .document = object->document, .parent = object, .key = key };
}

uint64_t json_u64(struct json *object, const char *key, uint64_t least, uint64_t most)
{
    struct json place = member(object, key);
    return json_item_u64(&place, least, most);
}

const char *json_string(struct json *object, const char *key)
{
    struct json place = member(object, key);
    return json_item_string(&place);
}

void json_string_into(struct json *object, const char *key, char *to, size_t size)
{
    const char *value = json_string(object, key);
    if (strlen(value) >= size)
        json_refuse_key(object, key, "is longer than %zu bytes", size - 1);
    else
        memcpy(to, value, strlen(value) + 1);
}

double json_fraction(struct json *object, const char *key)
{
    struct json place = member(object, key);
    return json_item_fraction(&place);
}

bool json_bool(struct json *object, const char *key)
{
    const struct json place = member(object, key);
    const cJSON *node = node_of(&place);
    if (node && !cJSON_IsBool(node))
        json_refuse(&place, "is %s, not true or false", kind_of(node));
    return node && cJSON_IsTrue(node);
}

bool json_flag(struct json *object, const char *key)
{
    struct json place = member(object, key);
    const cJSON *node = node_of(&place);
    return cJSON_IsBool(node) ? cJSON_IsTrue(node) : json_item_u64(&place, 0, 1) == 1;
}

bool json_null(struct json *object, const char *key)
{
    const struct json place = member(object, key);
    return cJSON_IsNull(node_of(&place));
}

struct json json_object(struct json *object, const char *key)
{
    struct json place = member(object, key);
    json_item_object(&place);
    return place;
}

struct json json_array(struct json *object, const char *key)
{
    struct json place = member(object, key);
    json_item_array(&place);
    return place;
}

size_t json_choice(struct json *object, const char *key, const char *const *names)
{
    const char *value = json_string(object, key);
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], value) == 0)
            return i;
    struct text sentence = { 0 };
    text_add(&sentence, "is ");
    add_key(&sentence, value);
    for (size_t i = 0; names[i]; i++)
        text_add(&sentence, "%s%s", i == 0 ? ", not one of " : ", ", names[i]);
    json_refuse_key(object, key, "%s", sentence.failed ? "is not one of the known names" : sentence.data);
    text_clear(&sentence);
    return 0;
}

void json_format(struct json *root, const char *format)
{
    const char *found = json_string(root, "format");
    if (strcmp(found, format) != 0) {
        struct text quoted = { 0 };
        add_key(&quoted, found);
        json_refuse_key(root, "format", "is %s, not \"%s\"", quoted.failed ? "" : quoted.data, format);
        text_clear(&quoted);
    }
    const uint64_t version = json_u64(root, "version", 1, JSON_MAX);
    if (version > DOCUMENT_VERSION)
        json_refuse_key(root, "version", "is %llu; this Weir reads version %d", (unsigned long long)version,
                        DOCUMENT_VERSION);
}

// --- lists and their items -----------------------------------------------------------

bool json_next(struct json *array, struct json *item)
{
    const cJSON *node = node_of(array), *next = array->next;
    if (node && !cJSON_IsArray(node))
        json_refuse(array, "is %s, not a list", kind_of(node));
    if (!node || !next)
        return false;
    *item = child_of(array, next, array->next_index);
    array->next_index++;
    array->next = next->next;
    return true;
}

bool json_next_key(struct json *object, struct json *value)
{
    const cJSON *node = node_of(object);
    cJSON *next = (cJSON *)object->next;
    if (node && !cJSON_IsObject(node))
        json_refuse(object, "is %s, not an object", kind_of(node));
    if (!node || !next || !cJSON_IsObject(node))
        return false;
    next->valueint = 1;
    *value = child_of(object, next, 0);
    object->next = next->next;
    return true;
}

bool json_next_unasked(struct json *object, struct json *value)
{
    const cJSON *node = node_of(object), *next = object->next;
    while (node && cJSON_IsObject(node) && next && next->valueint != 0)
        next = next->next;
    object->next = next;
    return next && json_next_key(object, value);
}

enum json_kind json_kind(const struct json *place)
{
    const cJSON *node = node_of(place);
    return !node                  ? JSON_NOTHING
         : cJSON_IsString(node)   ? JSON_STRING
         : cJSON_IsNumber(node)   ? JSON_NUMBER
         : cJSON_IsBool(node)     ? JSON_TRUTH
         : cJSON_IsNull(node)     ? JSON_NULL
         : cJSON_IsArray(node)    ? JSON_ARRAY
                                  : JSON_OBJECT;
}

size_t json_count(const struct json *array)
{
    const cJSON *node = node_of(array);
    return node ? (size_t)cJSON_GetArraySize(node) : 0;
}

static void refuse_number(const struct json *place, double value, uint64_t least, uint64_t most)
{
    if (value < 0)
        json_refuse(place, "is %.15g; it cannot be negative", value);
    else if (value != floor(value))
        json_refuse(place, "is %.15g, not a whole number", value);
    else if (most < JSON_MAX)
        json_refuse(place, "is %.0f; it must be from %llu to %llu", value, (unsigned long long)least,
                    (unsigned long long)most);
    else if (value < (double)least)
        json_refuse(place, "is %.0f; it must be at least %llu", value, (unsigned long long)least);
    else
        json_refuse(place, "is larger than 2^53 - 1");
}

uint64_t json_item_u64(struct json *item, uint64_t least, uint64_t most)
{
    assert(least <= most && most <= JSON_MAX);
    const cJSON *node = node_of(item);
    if (!node)
        return 0;
    const double value = node->valuedouble;
    if (!cJSON_IsNumber(node))
        json_refuse(item, "is %s, not a whole number", kind_of(node));
    else if (!(value >= (double)least && value <= (double)most && value == floor(value)))
        refuse_number(item, value, least, most);
    else
        return (uint64_t)value;
    return 0;
}

const char *json_item_string(struct json *item)
{
    const cJSON *node = node_of(item);
    if (node && cJSON_IsString(node))
        return node->valuestring;
    if (node)
        json_refuse(item, "is %s, not a string", kind_of(node));
    return "";
}

double json_item_fraction(struct json *item)
{
    const cJSON *node = node_of(item);
    if (!node)
        return 0;
    if (cJSON_IsNumber(node) && fabs(node->valuedouble) <= 0x1p53)
        return node->valuedouble;
    if (cJSON_IsNumber(node))
        json_refuse(item, "is %.6g; it must be from -2^53 to 2^53", node->valuedouble);
    else
        json_refuse(item, "is %s, not a number", kind_of(node));
    return 0;
}

void json_item_object(struct json *item)
{
    const cJSON *node = node_of(item);
    if (node && !cJSON_IsObject(node))
        json_refuse(item, "is %s, not an object", kind_of(node));
}

void json_item_array(struct json *item)
{
    const cJSON *node = node_of(item);
    if (node && !cJSON_IsArray(node))
        json_refuse(item, "is %s, not a list", kind_of(node));
}

// --- keys that were not asked for -----------------------------------------------------

void json_end(struct json *object)
{
    const cJSON *node = node_of(object);
    const cJSON *child = node && cJSON_IsObject(node) ? node->child : NULL;
    while (child && child->valueint != 0)
        child = child->next;
    if (!child)
        return;
    struct text key = { 0 };
    add_key(&key, child->string);
    json_refuse(object, "key %s is not known", key.failed ? "" : key.data);
    text_clear(&key);
}

size_t json_unasked(const struct json *object)
{
    const cJSON *node = node_of(object);
    size_t count = 0;
    for (const cJSON *child = node && cJSON_IsObject(node) ? node->child : NULL; child; child = child->next)
        count += child->valueint == 0;
    return count;
}
