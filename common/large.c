#include "common/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

// Only whole large pages within the array; without them all is as it was.
static void *advise(void *at, size_t bytes)
{
    const uintptr_t first = ((uintptr_t)at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)at + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (at && first < end)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    return at;
}

void *large_malloc(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : advise(malloc(bytes), bytes);
}

void *large_calloc(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : advise(calloc(count, size), bytes);
}
