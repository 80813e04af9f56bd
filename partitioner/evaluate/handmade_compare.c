// Compares what a document made by hand says besides its decision with the plan.
#include <math.h>
#include <stdio.h>

#include "common/json.h"
#include "partitioner/evaluate/handmade.h"

enum { MOST_LINES = 20 };

struct differences {
    struct text *text;
    size_t count;
};

static void compare(struct differences *differences, struct json *said, struct json *found, const char *path);

static void compare_numbers(struct differences *differences, struct json *said, struct json *found, const char *path)
{
    const double a = json_item_fraction(said), b = json_item_fraction(found);
    const bool is_whole = a == floor(a) && b == floor(b);
    if (a == b || (!is_whole && fabs(a - b) <= 0.0000011))
        return;
    if (differences->count++ < MOST_LINES)
        text_add(differences->text, is_whole ? "%s: the document says %.0f, it is %.0f\n"
                                             : "%s: the document says %.6f, it is %.6f\n", path, a, b);
}

// A key that only one of them has is skipped.
static void compare_objects(struct differences *differences, struct json *said, struct json *found, const char *path)
{
    struct json key, other;
    while (json_next_key(said, &key)) {
        char longer[200];
        snprintf(longer, sizeof longer, "%s%s%s", path, *path ? "." : "", key.key);
        if (json_find(found, key.key, &other))
            compare(differences, &key, &other, longer);
    }
}

static void compare(struct differences *differences, struct json *said, struct json *found, const char *path)
{
    const enum json_kind kind = json_kind(said);
    if (kind != json_kind(found))
        return;
    if (kind == JSON_NUMBER)
        compare_numbers(differences, said, found, path);
    if (kind == JSON_OBJECT)
        compare_objects(differences, said, found, path);
    struct json a, b;
    for (size_t i = 0; kind == JSON_ARRAY && json_next(said, &a) && json_next(found, &b); i++) {
        char longer[200];
        snprintf(longer, sizeof longer, "%s[%zu]", path, i);
        compare(differences, &a, &b, longer);
    }
}

// Compares stages and predictions. The certificate is about another search.
static void compare_documents(struct differences *differences, struct json_document *said,
                              struct json_document *found)
{
    static const char *const compared[] = { "stages", "predicted" };
    const struct json a = json_root(said), b = json_root(found);
    struct json one, other;
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++)
        if (json_find(&a, compared[i], &one) && json_find(&b, compared[i], &other))
            compare(differences, &one, &other, compared[i]);
    if (differences->count > MOST_LINES)
        text_add(differences->text, "and %zu more\n", differences->count - MOST_LINES);
}

bool handmade_compare(struct handmade *handmade, const struct plan *plan, struct text *text, struct error *error)
{
    struct text written = { 0 };
    plan_write(plan, &written);
    struct json_document *found =
        text_ok(&written, "the plan", error) ? json_parse(written.data, written.length, "the plan", error) : NULL;
    const bool good = found != NULL;
    struct differences differences = { .text = text };
    if (good)
        compare_documents(&differences, handmade->document, found);
    json_free(found);
    text_clear(&written);
    return good;
}
