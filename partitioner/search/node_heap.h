// The nodes of a search that are still to be opened, by number: on top the one that comes first, as the search says.
#ifndef PARTITIONER_SEARCH_NODE_HEAP_H
#define PARTITIONER_SEARCH_NODE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_heap {
    uint32_t *nodes;  // the room is the caller's
    size_t count;
};

// Whether node a comes before node b; no two are alike.
typedef bool node_order(const void *search, uint32_t a, uint32_t b);

static inline void node_heap_push(struct node_heap *heap, uint32_t node, node_order *comes_first, const void *search)
{
    size_t at = heap->count++;
    for (; at > 0 && comes_first(search, node, heap->nodes[(at - 1) / 2]); at = (at - 1) / 2)
        heap->nodes[at] = heap->nodes[(at - 1) / 2];
    heap->nodes[at] = node;
}

// There is one at least.
static inline uint32_t node_heap_pop(struct node_heap *heap, node_order *comes_first, const void *search)
{
    const uint32_t top = heap->nodes[0], node = heap->nodes[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        child += child + 1 < heap->count && comes_first(search, heap->nodes[child + 1], heap->nodes[child]);
        if (!comes_first(search, heap->nodes[child], node))
            break;
        heap->nodes[at] = heap->nodes[child];
    }
    heap->nodes[at] = node;
    return top;
}

#endif
