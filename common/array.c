#include "common/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 16 };

bool array_grow(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
    const size_t twice = *capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * *capacity;
    size_t more = twice > count ? twice : count;
    more = more > LEAST ? more : LEAST;
    if (more > SIZE_MAX / item_bytes)
        return false;
    void *items;  // pointers to other types may have another representation than this one, so they are copied as bytes
    memcpy(&items, array, sizeof items);
    void *moved = realloc(items, more * item_bytes);
    if (!moved)
        return false;
    memcpy(array, &moved, sizeof moved);
    *capacity = more;
    return true;
}

void *array_copy(const void *items, size_t count, size_t item_bytes)
{
    void *copy = malloc((count > 0 ? count : 1) * item_bytes);
    if (copy && count > 0)
        memcpy(copy, items, count * item_bytes);
    return copy;
}
