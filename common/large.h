// Arrays of many megabytes. They are like those of malloc(), calloc() and aligned_alloc(), and are freed by free(), but
// the system is asked to map them in large pages if it has any. A traversal of millions of actions otherwise spends a
// good part of its time on page faults, and kernels lose a few percent.
#ifndef COMMON_LARGE_H
#define COMMON_LARGE_H

#include <stddef.h>

void *large_malloc(size_t count, size_t size);
void *large_calloc(size_t count, size_t size);
void *large_aligned_alloc(size_t alignment, size_t bytes);

#endif
