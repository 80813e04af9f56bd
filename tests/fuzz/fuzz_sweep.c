// Whatever the bytes, reading a sweep ends in a sweep or one sentence; and a sweep
// that was read is written, read again and written alike.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/sweep/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void try_sweep(const struct sweep *sweep)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    sweep_write(sweep, &first);
    struct sweep *again = sweep_read(first.data, first.length, "again", &error);
    check(again != NULL);
    sweep_write(again, &second);
    check(strcmp(first.data, second.data) == 0);
    text_clear(&first);
    text_clear(&second);
    sweep_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct sweep *sweep = sweep_read((const char *)data, size, "fuzz", &error);
    check((sweep != NULL) == (error.kind == ERROR_NONE));
    if (sweep)
        try_sweep(sweep);
    sweep_free(sweep);
    return 0;
}
