// Any text is a number with a unit or one sentence, and what is printed of a
// number reads back.

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

typedef bool parse(const char *text, uint64_t *value, struct error *error);
typedef const char *format(uint64_t value, char *buffer);

static void try_one(const char *text, parse *parse, format *format)
{
    uint64_t value = 0, again = 0;
    struct error error = { 0 };
    const bool good = parse(text, &value, &error);
    check(good == (error.kind == ERROR_NONE));
    if (!good || value > (uint64_t)1 << 52)
        return;
    char buffer[NUMBER_SIZE], once_more[NUMBER_SIZE];
    check(parse(format(value, buffer), &again, &error));
    // Three digits are kept, and printing what was printed changes nothing.
    check((again > value ? again - value : value - again) <= value / 199 + 1);
    check(strcmp(format(again, once_more), buffer) == 0 || again < value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    check(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    try_one(text, bytes_parse, bytes_format);
    try_one(text, time_parse, time_format);
    try_one(text, rate_parse, rate_format);
    uint64_t count = 0;
    struct error error = { 0 };
    if (count_parse(text, "count", 5, 500, &count, &error))
        check(count >= 5 && count <= 500);
    free(text);
    return 0;
}
