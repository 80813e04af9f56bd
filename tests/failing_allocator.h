// Replaces the program's malloc by one that fails if may_have() returns false. Include it in one source of a program,
// after the definition of may_have(), and only if no sanitizer brings its own allocator (sanitizer.h).
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
