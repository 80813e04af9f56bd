// Arrays that live and die together: made one by one, looked at for failure once, and freed at once.
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
    bool failed;  // some array could not be had
};

// Zeroed; of no items it has room for one. NULL without memory.
void *arrays_add(struct arrays *arrays, size_t count, size_t item_bytes);

// Takes over what somebody else made, for free(); NULL is taken for a failure.
void *arrays_keep(struct arrays *arrays, void *made);

void arrays_clear(struct arrays *arrays);

#endif
