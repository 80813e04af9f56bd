// A heap of ranks by the moment at which each does something: the earliest on top, ties by rank. The caller provides
// the memory.
#ifndef SCHEDULES_RANK_HEAP_H
#define SCHEDULES_RANK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank_moment {
    uint64_t time_ns;
    uint32_t rank;
};

struct rank_heap {
    struct rank_moment *at;
    size_t count;
};

static inline bool rank_moment_is_before(struct rank_moment a, struct rank_moment b)
{
    return a.time_ns < b.time_ns || (a.time_ns == b.time_ns && a.rank < b.rank);
}

static inline void rank_heap_push(struct rank_heap *heap, uint32_t rank, uint64_t time_ns)
{
    const struct rank_moment moment = { time_ns, rank };
    size_t hole = heap->count++;
    for (; hole > 0 && rank_moment_is_before(moment, heap->at[(hole - 1) / 2]); hole = (hole - 1) / 2)
        heap->at[hole] = heap->at[(hole - 1) / 2];
    heap->at[hole] = moment;
}

static inline struct rank_moment rank_heap_pop(struct rank_heap *heap)
{
    const struct rank_moment top = heap->at[0], last = heap->at[--heap->count];
    size_t hole = 0;
    for (size_t child; (child = 2 * hole + 1) < heap->count; hole = child) {
        child += child + 1 < heap->count && rank_moment_is_before(heap->at[child + 1], heap->at[child]);
        if (!rank_moment_is_before(heap->at[child], last))
            break;
        heap->at[hole] = heap->at[child];
    }
    heap->at[hole] = last;
    return top;
}

#endif
