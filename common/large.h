// Arrays of many megabytes: as malloc() and calloc() give them, and freed by free(),
// but the system is asked to map them in large pages where it has such. A walk
// through millions of actions otherwise spends a good part of its time on being
// given its pages one by one.
#ifndef COMMON_LARGE_H
#define COMMON_LARGE_H

#include <stddef.h>

void *large_malloc(size_t count, size_t size);
void *large_calloc(size_t count, size_t size);

#endif
