// Whatever the bytes, reading a document of data ends in one, which is written as it was read, or in one sentence.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/sample_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static bool read(const char *text, size_t length, struct sample_data *data)
{
    struct error error = { 0 };
    struct json_document *document = json_parse(text, length, "fuzz", &error);
    const bool good = document && sample_data_read(document, data, &error);
    check(good == (error.kind == ERROR_NONE));
    json_free(document);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sample_data data, again;
    struct text first = { 0 }, second = { 0 };
    if (!read((const char *)bytes, size, &data))
        return 0;
    sample_data_put(&data, &first);
    check(read(first.data, first.length, &again));
    sample_data_put(&again, &second);
    check(strcmp(first.data, second.data) == 0);
    text_clear(&first);
    text_clear(&second);
    return 0;
}
