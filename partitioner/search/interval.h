// A model, priced by intervals of layers: what the search asks millions of times.
//
// Running totals make every sum over layers one subtraction:
//
//     layer            0     1     2     3
//     forward          4     1     3     2
//     before           0     4     5     8    10
//                            ^-----------^
//     layers 1 and 2 take before[3] - before[1] = 8 - 4 = 4
//
// Sizes that depend on who reads what inside the interval take one pass over its
// layers. The plain definition is stage_cost.h; tests hold the two together.
#ifndef PARTITIONER_SEARCH_INTERVAL_H
#define PARTITIONER_SEARCH_INTERVAL_H

#include "partitioner/cost/layer_memory.h"
#include "partitioner/cost/stage_cost.h"

// Sums over the layers before one: of F, B and R, and of bytes.
struct interval_sums {
    uint64_t forward_ns, backward_ns, recompute_ns;
    uint64_t with_weights;  // layers
    uint64_t weights, optimizer, kept, carried, held;
};

struct intervals {
    const struct profile *profile;
    struct holding holding;
    uint32_t layers;
    uint32_t replicas;  // of the stage that is asked about; 1 until somebody knows better
    uint32_t splits;  // parts in which sequences go through a stage; 1 until a schedule says otherwise
    uint64_t until_ns;  // by clock_now_ns(): what is worked out of intervals is cut short from then on; 0: never
    struct interval_sums *before;  // of each layer; layers + 1
    struct layer_memory *memory;   // of each layer
    uint64_t *cut;         // bytes of a message over the cut in front of layer i; layers + 1
    uint32_t *reader_at;   // the readers of layer i: readers[reader_at[i]] to readers[reader_at[i + 1]], ascending
    uint32_t *readers;
    uint32_t *source_at;   // what layer i reads, likewise
    uint32_t *sources;
    uint64_t *alive, *above;  // room of the walk below, per layer
};

// The profile is borrowed. Its sums are below 2^53, as its reader sees to.
struct intervals *intervals_create(const struct profile *profile, const struct holding *holding,
                                   struct error *error);
void intervals_free(struct intervals *intervals);

// Sums of F and of B over layers [first, end), on a device as fast as the profile's.
static inline uint64_t interval_forward_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].forward_ns - intervals->before[first].forward_ns;
}

static inline uint64_t interval_backward_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].backward_ns - intervals->before[first].backward_ns;
}

// What running layers [first, end) again takes.
static inline uint64_t interval_recompute_ns(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    return intervals->before[end].recompute_ns - intervals->before[first].recompute_ns;
}

// How long what the layer reads is there for it where it is not run again.
static inline enum input_life interval_reads_until(const struct intervals *intervals, uint32_t layer)
{
    return layer_reads_until(&intervals->profile->layers[layer], false);
}

// What holding_add_times() wants to know of layers [first, end).
struct stage_states interval_states(const struct intervals *intervals, uint32_t first, uint32_t end);

// stage_bytes_at() without segments.
struct stage_bytes interval_bytes(struct intervals *intervals, uint32_t first, uint32_t end);

#endif
