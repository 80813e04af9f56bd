// A heap of ranks by the moment at which each does something: the earliest on top, ties by rank. A rank is in it
// once at most. The caller provides the memory.
#ifndef SCHEDULES_RANK_HEAP_H
#define SCHEDULES_RANK_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct rank_heap {
    uint32_t *ranks;       // room for all ranks
    uint64_t *moments_ns;  // per rank
    uint32_t count;
};

static inline bool rank_heap_is_before(const struct rank_heap *heap, uint32_t a, uint32_t b)
{
    const uint64_t *moments = heap->moments_ns;
    return moments[a] < moments[b] || (moments[a] == moments[b] && a < b);
}

static inline void rank_heap_push(struct rank_heap *heap, uint32_t rank, uint64_t moment_ns)
{
    uint32_t hole = heap->count++;
    heap->moments_ns[rank] = moment_ns;
    while (hole > 0 && rank_heap_is_before(heap, rank, heap->ranks[(hole - 1) / 2])) {
        heap->ranks[hole] = heap->ranks[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap->ranks[hole] = rank;
}

static inline uint32_t rank_heap_pop(struct rank_heap *heap)
{
    const uint32_t top = heap->ranks[0], rank = heap->ranks[--heap->count];
    uint32_t hole = 0;
    for (uint32_t child; (child = 2 * hole + 1) < heap->count; hole = child) {
        if (child + 1 < heap->count && rank_heap_is_before(heap, heap->ranks[child + 1], heap->ranks[child]))
            child++;
        if (!rank_heap_is_before(heap, heap->ranks[child], rank))
            break;
        heap->ranks[hole] = heap->ranks[child];
    }
    heap->ranks[hole] = rank;
    return top;
}

#endif
