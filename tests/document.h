// The example on a page of docs/formats: its first code block in a language. Tests parse it, so that the page shows
// what the reader accepts. The caller frees it.
#ifndef TESTS_DOCUMENT_H
#define TESTS_DOCUMENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tests/test.h"

static inline char *test_block(const char *page, const char *language)
{
    struct error error = { 0 };
    char fence[32];
    size_t length;
    char *whole = text_load(page, &length, &error);
    if (!whole)
        fail_msg("%s", error.text);
    snprintf(fence, sizeof fence, "\n```%s\n", language);
    char *begin = strstr(whole, fence);
    char *end = begin ? strstr(begin + 4, "\n```\n") : NULL;
    if (!end)
        fail_msg("%s has no ```%s block", page, language);
    begin += strlen(fence);
    end[1] = '\0';
    memmove(whole, begin, strlen(begin) + 1);
    return whole;
}

static inline char *test_document(const char *page)
{
    return test_block(page, "json");
}

// The same with the first `from` in it replaced by `to`.
static inline char *test_document_with(const char *page, const char *from, const char *to)
{
    char *text = test_document(page), *at = strstr(text, from);
    if (!at)
        fail_msg("the example of %s has no %s", page, from);
    struct text changed = { 0 };
    struct error error = { 0 };
    text_add_bytes(&changed, text, (size_t)(at - text));
    text_add(&changed, "%s%s", to, at + strlen(from));
    free(text);
    char *taken = text_take(&changed, &error);
    assert_good(taken, error);
    return taken;
}

static inline void test_same_place(struct json *example, struct json *written)
{
    struct json a, b;
    assert_int_equal(json_kind(example), json_kind(written));
    if (json_kind(example) == JSON_ARRAY && json_next(example, &a) && json_next(written, &b))
        test_same_place(&a, &b);
    if (json_kind(example) != JSON_OBJECT)
        return;
    assert_int_equal(json_count(example), json_count(written));
    while (json_next_key(example, &a) && json_next_key(written, &b)) {
        assert_string_equal(a.key, b.key);
        test_same_place(&a, &b);
    }
}

// For documents that are only written: checks that the page's example has the keys of a written one, in the same
// order and with the same kinds of values. In lists, the first items are compared.
static inline void assert_shown_as_written(const char *page, const char *written)
{
    struct error error = { 0 };
    char *text = test_document(page);
    struct json_document *example = json_parse(text, strlen(text), page, &error);
    assert_good(example, error);
    struct json_document *other = json_parse(written, strlen(written), "what was written", &error);
    assert_good(other, error);
    struct json a = json_root(example), b = json_root(other);
    test_same_place(&a, &b);
    json_free(example);
    json_free(other);
    free(text);
}

#endif
