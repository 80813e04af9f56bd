// Arrays that grow an item at a time.
//
//     struct list { struct item *at; size_t count, capacity; };
//
//     if (!array_reserve(&list->at, &list->capacity, list->count + 1, sizeof list->at[0]))
//         return error_no_memory(error, "a list");
//     list->at[list->count++] = item;
//
// Capacities double, so that n items are moved fewer than 2 n times in all. The array is the
// caller's, begins as NULL with a capacity of 0, and is freed with free().
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

// As array_reserve(), of an array that must grow for it.
bool array_grow(void *array, size_t *capacity, size_t count, size_t item_bytes);

// Room for `count` items in all; `array` is the address of the pointer to the first. False without memory: then the
// array stays as it is.
static inline bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
    return count <= *capacity || array_grow(array, capacity, count, item_bytes);
}

#endif
