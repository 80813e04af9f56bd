#include "partitioner/orders/order_open.h"

#include <stdlib.h>

static bool comes_first(const void *of, uint32_t a, uint32_t b)
{
    const struct order_open *open = of;
    const struct order_node *x = &open->nodes[a], *y = &open->nodes[b];
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns;
    if (x->stages != y->stages)
        return x->stages > y->stages;
    return a < b;
}

void order_open_again(struct order_open *open, uint32_t node)
{
    node_heap_push(&open->heap, node, comes_first, open);
}

bool order_open_add(struct order_open *open, struct order_node node)
{
    if (open->count == open->capacity) {
        const size_t capacity = open->capacity ? 2 * open->capacity : 1024;
        struct order_node *nodes = realloc(open->nodes, capacity * sizeof *nodes);
        open->nodes = nodes ? nodes : open->nodes;
        uint32_t *heap = nodes ? realloc(open->heap.nodes, capacity * sizeof *heap) : NULL;
        open->heap.nodes = heap ? heap : open->heap.nodes;
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
    if (open->heap.count == 0)
        return false;
    *node = node_heap_pop(&open->heap, comes_first, open);
    return true;
}

void order_open_clear(struct order_open *open)
{
    free(open->nodes);
    free(open->heap.nodes);
    *open = (struct order_open){ 0 };
}
