// A priority queue of the nodes of a search that are still to be opened, by number. The node that comes first, in the
// order that the search defines, is on top.
#ifndef PARTITIONER_SEARCH_NODE_HEAP_H
#define PARTITIONER_SEARCH_NODE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_heap {
    uint32_t *nodes;  // the caller provides the room
    size_t count;
};

// Whether node a comes before node b; no two are equal.
typedef bool node_order(const void *search, uint32_t a, uint32_t b);

static inline void node_heap_push(struct node_heap *heap, uint32_t node, node_order *comes_first, const void *search)
{
    size_t hole = heap->count++;
    for (; hole > 0 && comes_first(search, node, heap->nodes[(hole - 1) / 2]); hole = (hole - 1) / 2)
        heap->nodes[hole] = heap->nodes[(hole - 1) / 2];
    heap->nodes[hole] = node;
}

// Removes the top node and returns it. There must be at least one.
static inline uint32_t node_heap_pop(struct node_heap *heap, node_order *comes_first, const void *search)
{
    const uint32_t top = heap->nodes[0], node = heap->nodes[--heap->count];
    size_t hole = 0;
    for (size_t child; (child = 2 * hole + 1) < heap->count; hole = child) {
        child += child + 1 < heap->count && comes_first(search, heap->nodes[child + 1], heap->nodes[child]);
        if (!comes_first(search, heap->nodes[child], node))
            break;
        heap->nodes[hole] = heap->nodes[child];
    }
    heap->nodes[hole] = node;
    return top;
}

#endif
