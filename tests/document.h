// The example of a page in docs/formats: its first block of a language, so that
// what the page shows is what the reader reads. The caller frees it.
#ifndef TESTS_DOCUMENT_H
#define TESTS_DOCUMENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
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

// The same with the first `from` in it turned into `to`.
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

#endif
