// A model priced by intervals of layers, for what the search asks millions of times.
//
// Running totals make every sum over layers one subtraction:
//
//     layer            0     1     2     3
//     forward          4     1     3     2
//     before           0     4     5     8    10
//                            ^-----------^
//     layers 1 and 2 take before[3] - before[1] = 8 - 4 = 4
//
// Sizes that depend on which layer reads what inside the interval take one pass over its layers. The plain definition
// is stage_cost.h; tests check that the two agree.
#ifndef PARTITIONER_SEARCH_INTERVAL_H
#define PARTITIONER_SEARCH_INTERVAL_H

#include "common/arrays.h"
#include "partitioner/cost/layer_memory.h"
#include "partitioner/cost/stage_cost.h"

// Sums over the layers before one: times of F, B and R, and bytes (layer_memory.h).
struct interval_sums {
    uint64_t forward_ns, backward_ns, recompute_ns;
    uint64_t with_weights;  // the number of layers with weights
    uint64_t weights, optimizer, gradients, version_less, kept, shared_by_parts, held, state, statistics, update_ns;
};

struct intervals {
    const struct profile *profile;
    struct storage storage;
    uint32_t layers;
    uint32_t replicas;  // of the stage in question; 1 until set otherwise
    bool has_lists;     // some layer has tables whose gradient may be a list of rows
    uint32_t splits;  // parts in which sequences pass through a stage; 1 until a schedule says otherwise
    uint64_t until_ns;  // by clock_now_ns(): work on intervals is cut short from then on; 0: never
    struct interval_sums *before;  // of each layer; layers + 1 entries
    struct layer_memory *memory;   // of each layer
    uint64_t *cut;         // bytes of a message over the cut in front of layer i; layers + 1 entries
    uint32_t *reader_at;   // the readers of layer i: readers[reader_at[i]] to readers[reader_at[i + 1]], ascending
    uint32_t *readers;
    uint32_t *source_at;   // what layer i reads, likewise
    uint32_t *sources;
    uint64_t *alive, *above;  // scratch of the pass over an interval, per layer
    // What likeness.h has found, when it was asked: a distance (0: none), and a count for each layer. This counts the
    // layers in front that are unlike the layer so far in front of them.
    uint32_t period, *unlike;
    struct arrays arrays;
};

// The profile is borrowed. Its sums are below 2^53, which its reader ensures. NULL with an error.
struct intervals *intervals_create(const struct profile *profile, const struct storage *storage,
                                   struct error *error);
void intervals_free(struct intervals *intervals);

// Sums of F and of B over layers [first, end), ns on a device as fast as the profile's.
static inline uint64_t interval_forward_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].forward_ns - intervals->before[first].forward_ns;
}

static inline uint64_t interval_backward_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].backward_ns - intervals->before[first].backward_ns;
}

// The time to recompute layers [first, end), ns.
static inline uint64_t interval_recompute_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].recompute_ns - intervals->before[first].recompute_ns;
}

// How long a layer that is not recomputed needs what it reads.
static inline enum input_life interval_reads_until(const struct intervals *intervals, uint32_t layer)
{
    return layer_reads_until(&intervals->profile->layers[layer], false);
}

// The bytes of the gradients of layers [first, end) in one of so many copies, and, for storage_reduce_ns(), those of
// the weights, or what lists of rows count as. Layers that they bring a copy of are not counted.
uint64_t interval_gradients(const struct intervals *intervals, uint32_t first, uint32_t end, uint32_t copies);
uint64_t interval_reduced(const struct intervals *intervals, uint32_t first, uint32_t end, uint32_t copies);

// The sums over layers [first, end) that storage_add_times() needs.
struct stage_states interval_states(const struct intervals *intervals, uint32_t first, uint32_t end);

// The same as stage_bytes_at() without segments.
struct stage_bytes interval_bytes(struct intervals *intervals, uint32_t first, uint32_t end);

#endif
