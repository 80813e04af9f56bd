// Whatever the bytes, reading an explanation ends in an explanation or one sentence; and an explanation
// that was read is written, read again and written alike.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/explain/explain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void try_explanation(const struct explanation *explanation)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    explanation_write(explanation, &first);
    struct explanation *again = explanation_read(first.data, first.length, "again", &error);
    check(again != NULL);
    explanation_write(again, &second);
    check(strcmp(first.data, second.data) == 0);
    text_clear(&first);
    text_clear(&second);
    explanation_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct explanation *explanation = explanation_read((const char *)data, size, "fuzz", &error);
    check((explanation != NULL) == (error.kind == ERROR_NONE));
    if (explanation)
        try_explanation(explanation);
    explanation_free(explanation);
    return 0;
}
