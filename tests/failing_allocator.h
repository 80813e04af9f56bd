// The program's own malloc, which fails where may_have() says so. For one source of a program, where sanitizers do not
// bring an allocator of their own (sanitizer.h); may_have() is defined in front of this.
#ifndef TESTS_FAILING_ALLOCATOR_H
#define TESTS_FAILING_ALLOCATOR_H

#include <stddef.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    return may_have() ? __libc_malloc(bytes) : NULL;
}

void *calloc(size_t count, size_t bytes)
{
    return may_have() ? __libc_calloc(count, bytes) : NULL;
}

void *realloc(void *memory, size_t bytes)
{
    return may_have() ? __libc_realloc(memory, bytes) : NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return may_have() ? __libc_memalign(alignment, bytes) : NULL;
}

#endif
