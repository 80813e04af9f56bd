// Any bytes are a document or one sentence; a document can be walked and asked.

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

// Asks an object for the keys that fuzzing soon finds, and for one it has not.
static void ask_object(struct json *object)
{
    if (json_has(object, "a"))
        json_u64(object, "a", 0, JSON_MAX);
    if (json_has(object, "b"))
        json_string(object, "b");
    if (json_has(object, "c"))
        json_fraction(object, "c");
    if (json_has(object, "d"))
        json_bool(object, "d");
    check(json_unasked(object) <= json_count(object));
    if (json_has(object, "list")) {
        struct json list = json_array(object, "list"), item;
        while (json_next(&list, &item))
            ask_object(&item);
    }
    if (json_has(object, "how"))
        json_choice(object, "how", (const char *const[]){ "fast", "slow", NULL });
    json_end(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct json_document *document = json_parse((const char *)data, size, "fuzz.json", &error);
    check((document == NULL) == (error.kind != ERROR_NONE));
    if (document) {
        struct json root = json_root(document);
        if (json_has(&root, "format"))
            json_format(&root, "weir.fuzz");
        ask_object(&root);
        check(json_ok(document, &error) == (error.kind == ERROR_NONE));
    }
    // What is wrong is one line, and says which document.
    if (error.kind != ERROR_NONE)
        check(strncmp(error.text, "fuzz.json: ", 11) == 0 && !strchr(error.text, '\n'));
    json_free(document);
    return 0;
}
