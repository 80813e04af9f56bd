// Arrays of many megabytes. They are like those of malloc() and calloc(), and are freed by free(), but the system is
// asked to map them in large pages if it has any. A traversal of millions of actions otherwise spends a good part of
// its time on page faults.
#ifndef COMMON_LARGE_H
#define COMMON_LARGE_H

#include <stddef.h>

void *large_malloc(size_t count, size_t size);
void *large_calloc(size_t count, size_t size);

#endif
