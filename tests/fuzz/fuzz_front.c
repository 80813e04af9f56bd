// Whatever the bytes, reading a front ends in a front or one sentence; and a front
// that was read is written, read again and written alike, and drawn.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/sweep/plan_front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void try_front(const struct plan_front *front)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    front_write(front, &first);
    struct plan_front *again = front_read(first.data, first.length, "again", &error);
    check(again != NULL);
    front_write(again, &second);
    check(strcmp(first.data, second.data) == 0);
    front_draw(front, &second);
    front_print(front, &second);
    check(!second.failed);
    text_clear(&first);
    text_clear(&second);
    front_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct plan_front *front = front_read((const char *)data, size, "fuzz", &error);
    check((front != NULL) == (error.kind == ERROR_NONE));
    if (front)
        try_front(front);
    front_free(front);
    return 0;
}
