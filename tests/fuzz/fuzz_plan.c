// Whatever the bytes, reading a plan ends in a plan or one sentence; and a plan
// that was read is written, read again and written alike.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void try_plan(const struct plan *plan)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    plan_write(plan, &first);
    struct plan *again = plan_read(first.data, first.length, "again", &error);
    check(again != NULL);
    plan_write(again, &second);
    check(strcmp(first.data, second.data) == 0);
    text_clear(&first);
    text_clear(&second);
    plan_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct plan *plan = plan_read((const char *)data, size, "fuzz", &error);
    check((plan != NULL) == (error.kind == ERROR_NONE));
    if (plan)
        try_plan(plan);
    plan_free(plan);
    return 0;
}
