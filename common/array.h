// Arrays that grow one item at a time.
//
//     struct list { struct item *at; size_t count, capacity; };
//
//     if (!array_reserve(&list->at, &list->capacity, list->count + 1, sizeof list->at[0]))
//         return error_no_memory(error, "a list");
//     list->at[list->count++] = item;
//
// Capacities double, so that n items are moved fewer than 2 n times in all. The array belongs to the caller. It
// begins as NULL with a capacity of 0, and is freed with free().
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

// Like array_reserve(), for an array that is too small.
bool array_grow(void *array, size_t *capacity, size_t count, size_t item_bytes);

// Makes room for `count` items in all. `array` is the address of the pointer to the first item. Returns false if
// memory runs out; the array is then unchanged.
static inline bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
    return count <= *capacity || array_grow(array, capacity, count, item_bytes);
}

// A copy, to be freed with free(); if `count` is 0, it has room for one item. Returns NULL if memory runs out.
void *array_copy(const void *items, size_t count, size_t item_bytes);

#endif
