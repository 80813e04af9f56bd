// The example of a page in docs/formats: its first ```json block, so that what
// the page shows is what the reader reads. The caller frees it.
#ifndef TESTS_DOCUMENT_H
#define TESTS_DOCUMENT_H

#include <string.h>

#include "common/text.h"
#include "tests/test.h"

static inline char *test_document(const char *page)
{
    struct error error = { 0 };
    size_t length;
    char *whole = text_load(page, &length, &error);
    if (!whole)
        fail_msg("%s", error.text);
    char *begin = strstr(whole, "\n```json\n");
    char *end = begin ? strstr(begin + 4, "\n```\n") : NULL;
    if (!end)
        fail_msg("%s has no ```json block", page);
    begin += strlen("\n```json\n");
    end[1] = '\0';
    memmove(whole, begin, strlen(begin) + 1);
    return whole;
}

#endif
