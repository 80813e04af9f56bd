// Searches for the order that takes the least time: when each rank does which of F, I and W. It takes the cost of
// each stage, and stays within the memory of each rank.
//
//     rank 0   F0 F1 F2 F3 ·  I0 W0 F4 I1 W1 ...       room for four micro-batches
//     rank 1   ·  F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 ...
//
// The result comes with a lower *bound* on the time of all orders, and thus with the optimality gap. The order is
// proved the best if time and bound are equal, or if nothing was left to try. Every backward is split into I and W.
// Every stage ends with its STEP, and begins with a VALIDATE if the objective is the span. All times are those of
// schedule_simulate() for the order.
//
// Bytes: a micro-batch keeps kept_forward_bytes from the start of F to the end of I, and kept_weight_bytes from
// there to the end of W. The fixed_bytes of all stages of the rank and their largest transient_bytes are added. A
// stage may keep more after I than after F. Its I then needs room, too, and an order can be proved only by the
// bound, not by trying all. Buffers of messages are not counted, since they depend on times and not on the order
// alone.
//
// All micro-batches are alike, so each stage can do them in order: an order in which one overtakes another takes no
// less time (docs/decisions/062).
#ifndef SCHEDULES_ORDER_SEARCH_H
#define SCHEDULES_ORDER_SEARCH_H

#include <signal.h>

#include "schedules/schedule.h"

// The rank of stage s: 0 1 2 3 | 0 1 2 3; or 0 1 2 3 3 2 1 0; or the latter repeated.
enum order_placement { PLACEMENT_ONE_WAY, PLACEMENT_V, PLACEMENT_WAVE };
extern const char *const order_placement_names[];  // "one-way", "v", "wave", NULL

// The default number of stages per rank: 1, 2 in a V, 4 in a wave.
uint32_t order_usual_chunks(enum order_placement placement);

// The time to minimize. The span is the longest time from a rank's own first start to its last end. This is the time
// of an iteration if ranks need not wait for each other between iterations. The makespan is the time from the first
// start to the last end anywhere.
enum order_objective { OBJECTIVE_SPAN, OBJECTIVE_MAKESPAN };
extern const char *const order_objective_names[];  // "span", "makespan", NULL

// In units of work: timing one action of an order is one unit, about 10 ns.
#define ORDER_DEFAULT_BUDGET 2000000

struct order_request {
    uint32_t ranks, micro_batches;
    uint32_t chunks;  // stages per rank; 2 in a V, an even number in a wave
    enum order_placement placement;
    const struct cost_row *costs;  // ranks * chunks rows
    uint64_t latency_ns;           // of a message between two ranks
    uint64_t memory_bytes;         // of each rank; 0: as much as it takes
    const uint64_t *rank_memory_bytes;  // the memory of each rank, instead of memory_bytes; or NULL
    enum order_objective objective;
    uint64_t budget;  // units of work; 0: ORDER_DEFAULT_BUDGET
    const volatile sig_atomic_t *interrupted;  // the search ends once it is not 0; or NULL
    void (*progress)(void *self, uint64_t units);  // reports that `units` more are done; called often; or NULL
    void *self;                                    // of progress
};

struct order_found {
    struct schedule *schedule;  // with its costs
    uint64_t time_ns;    // by the objective
    uint64_t bound_ns;   // no order takes less
    bool proved;         // whether time_ns is the least possible
    bool exhausted;      // proved by trying everything that could be better; otherwise by reaching the bound
    const char *method;  // the method that found it
    const char *stopped; // why nothing more was tried; or NULL
    uint64_t work;       // units
};

// Searches for an order. Fails with ERROR_ANSWER if there is none; the error names the rank that cannot hold even
// one micro-batch, and what it would need. The result is cleared by order_found_clear().
bool order_search(const struct order_request *request, struct order_found *found, struct error *error);
void order_found_clear(struct order_found *found);

// The optimality gap: (time - bound) / time.
double order_gap(const struct order_found *found);

#endif
