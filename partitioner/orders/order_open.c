#include "partitioner/orders/order_open.h"

#include <stdlib.h>

static bool comes_first(const struct order_open *open, uint32_t a, uint32_t b)
{
    const struct order_node *x = &open->nodes[a], *y = &open->nodes[b];
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns;
    if (x->stages != y->stages)
        return x->stages > y->stages;
    return a < b;
}

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t other = *a;
    *a = *b;
    *b = other;
}

void order_open_again(struct order_open *open, uint32_t node)
{
    uint32_t *heap = open->heap;
    size_t at = open->heap_count++;
    heap[at] = node;
    for (; at > 0 && comes_first(open, heap[at], heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

bool order_open_add(struct order_open *open, struct order_node node)
{
    if (open->count == open->capacity) {
        const size_t capacity = open->capacity ? 2 * open->capacity : 1024;
        struct order_node *nodes = realloc(open->nodes, capacity * sizeof *nodes);
        open->nodes = nodes ? nodes : open->nodes;
        uint32_t *heap = nodes ? realloc(open->heap, capacity * sizeof *heap) : NULL;
        open->heap = heap ? heap : open->heap;
        if (!nodes || !heap)
            return false;
        open->capacity = capacity;
    }
    open->nodes[open->count] = node;
    order_open_again(open, (uint32_t)open->count++);
    return true;
}

bool order_open_next(struct order_open *open, uint32_t *node)
{
    if (open->heap_count == 0)
        return false;
    uint32_t *heap = open->heap;
    *node = heap[0];
    heap[0] = heap[--open->heap_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < open->heap_count && comes_first(open, heap[child], heap[least]))
                least = child;
        if (least == at)
            return true;
        swap(&heap[at], &heap[least]);
        at = least;
    }
}

void order_open_clear(struct order_open *open)
{
    free(open->nodes);
    free(open->heap);
    *open = (struct order_open){ 0 };
}
