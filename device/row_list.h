// A gradient by rows (PyTorch calls it sparse): the rows of a matrix that have a gradient, each once, with their sums.
// All of it is on the device, where kernels of table_kernels.h fill it in and update by it:
//
//     count      3 | 0                               of all that follow, how many are in use; how many always are
//     numbers    | 7 | 2 | 9 |   |   |               which row of the matrix each is, in no particular order
//     sums       | . . . | . . . | . . . |  ..       and its gradient
//     places     |   |   | 1 |   |   |   |   | 0 | | 2 |    where each row of the matrix is in the list
//
// A row is in the list if its place is below the count and has its number (a sparse set, Briggs and Torczon 1993). So
// a count of 0 empties a list, whatever else its memory holds.
//
// The first rows of the matrix may always be in the list, as its first. Then their sums are a matrix like any other,
// which can be added to that of another list.
#ifndef DEVICE_ROW_LIST_H
#define DEVICE_ROW_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "common/number.h"

struct row_list {
    uint32_t *count;
    int32_t *numbers;  // NULL: the list has all rows of the matrix in their order, and neither count nor places
    int32_t *places;
    float *sums;
    size_t room;  // the most rows
    size_t rows, columns;  // of the matrix
};

static inline uint64_t row_list_bytes(size_t room, size_t rows, size_t columns)
{
    return round_to_256(sizeof(uint32_t)) + round_to_256(room * sizeof(int32_t)) + round_to_256(rows * sizeof(int32_t))
         + round_to_256(room * columns * sizeof(float));
}

// A list in so many bytes of device memory, which begin at a multiple of 256. It is empty if they are zero.
static inline struct row_list row_list_in(void *memory, size_t room, size_t rows, size_t columns)
{
    uint8_t *const numbers = (uint8_t *)memory + round_to_256(sizeof(uint32_t));
    uint8_t *const places = numbers + round_to_256(room * sizeof(int32_t));
    uint8_t *const sums = places + round_to_256(rows * sizeof(int32_t));
    const struct row_list list = { (uint32_t *)memory, (int32_t *)numbers, (int32_t *)places, (float *)sums, room, rows,
                                   columns };
    return list;
}

// The same without places, to which nothing can be added.
static inline uint64_t row_list_bytes_without_places(size_t room, size_t columns)
{
    return row_list_bytes(room, 0, columns);
}

static inline struct row_list row_list_without_places(void *memory, size_t room, size_t rows, size_t columns)
{
    struct row_list list = row_list_in(memory, room, 0, columns);
    list.places = NULL;
    list.rows = rows;
    return list;
}

// A gradient of the whole matrix as the list of all its rows.
static inline struct row_list row_list_of_all(float *gradient, size_t rows, size_t columns)
{
    const struct row_list list = { NULL, NULL, NULL, gradient, rows, rows, columns };
    return list;
}

#endif
