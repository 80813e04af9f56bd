// A set of arrays with a common lifetime. They are created one by one, checked for failure once, and freed together.
//
//     struct arrays arrays = { 0 };
//     uint64_t *sums = arrays_add(&arrays, count, sizeof sums[0]);
//     uint32_t *order = arrays_add(&arrays, count, sizeof order[0]);
//     if (arrays.failed)
//         return error_no_memory(error, "an order");
//     ...
//     arrays_clear(&arrays);
#ifndef COMMON_ARRAYS_H
#define COMMON_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>

struct arrays {
    void **list;
    size_t count, capacity;
    bool failed;  // an allocation failed
};

// Adds a zeroed array; if `count` is 0, it has room for one item. Returns NULL if memory runs out.
void *arrays_add(struct arrays *arrays, size_t count, size_t item_bytes);

// Takes ownership of memory that was allocated elsewhere, to be freed by free(). NULL counts as a failure.
void *arrays_keep(struct arrays *arrays, void *made);

void arrays_clear(struct arrays *arrays);

#endif
