#include "common/arrays.h"

#include <stdlib.h>

#include "common/array.h"

void *arrays_add(struct arrays *arrays, size_t count, size_t item_bytes)
{
    return arrays_keep(arrays, calloc(count ? count : 1, item_bytes));
}

void *arrays_keep(struct arrays *arrays, void *made)
{
    if (made && array_reserve(&arrays->list, &arrays->capacity, arrays->count + 1, sizeof arrays->list[0])) {
        arrays->list[arrays->count++] = made;
        return made;
    }
    free(made);
    arrays->failed = true;
    return NULL;
}

void arrays_clear(struct arrays *arrays)
{
    for (size_t i = 0; i < arrays->count; i++)
        free(arrays->list[i]);
    free(arrays->list);
    *arrays = (struct arrays){ 0 };
}
