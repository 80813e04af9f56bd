#include "common/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

// Advises only whole large pages within the array. Without any, nothing changes.
static void *advise(void *memory, size_t bytes)
{
    const uintptr_t first = ((uintptr_t)memory + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)memory + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (memory && first < end)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    return memory;
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

void *large_aligned_alloc(size_t alignment, size_t bytes)
{
    return advise(aligned_alloc(alignment, bytes), bytes);
}
