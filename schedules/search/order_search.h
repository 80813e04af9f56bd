// The order that takes the least time: which of F, I and W each rank does when,
// for stages that cost what they cost, within the bytes a rank has.
//
//     rank 0   F0 F1 F2 F3 ·  I0 W0 F4 I1 W1 ...       room for four micro-batches
//     rank 1   ·  F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 ...
//
// What is found comes with a *bound* that no order beats, and so with the gap
// between the two; the order is proved the best when they meet, or when nothing
// was left to try. Every backward is split into I and W, every stage ends with its
// STEP (and begins with a VALIDATE where the span is asked for), and all that is said
// of time is what schedule_simulate() says of the order.
//
// Bytes: a micro-batch keeps kept_forward_bytes from the start of F to the end of
// I, and kept_weight_bytes from there to the end of W; fixed_bytes of all stages of
// the rank and their largest transient_bytes come on top. A stage may keep more after
// I than after F: then its I needs room, too, and an order is proved by the bound
// only, not by trying all. Buffers of messages are not counted: they depend on times,
// and not on the order alone.
//
// Micro-batches are alike, so at each stage they may as well go in their order: an
// order in which one overtakes another takes no less (docs/decisions/062).
#ifndef SCHEDULES_ORDER_SEARCH_H
#define SCHEDULES_ORDER_SEARCH_H

#include <signal.h>

#include "schedules/schedule.h"

// Which rank has stage s: 0 1 2 3 | 0 1 2 3, then 0 1 2 3 3 2 1 0, and the same again and again.
enum order_placement { PLACEMENT_ONE_WAY, PLACEMENT_V, PLACEMENT_WAVE };
extern const char *const order_placement_names[];  // "one-way", "v", "wave", NULL

// Stages per rank where nobody says how many: 1, 2 in a V, 4 in a wave.
uint32_t order_usual_chunks(enum order_placement placement);

// What is to be short. The span is the longest time from a rank's own first start to
// its last end: what an iteration takes where ranks need not wait for each other
// between iterations. The makespan is from the first start to the last end anywhere.
enum order_objective { OBJECTIVE_SPAN, OBJECTIVE_MAKESPAN };
extern const char *const order_objective_names[];  // "span", "makespan", NULL

// Units of work: to time an action of an order is one, some 10 ns.
#define ORDER_DEFAULT_BUDGET 2000000

struct order_request {
    uint32_t ranks, micro_batches;
    uint32_t chunks;  // stages per rank; 2 in a V, an even number in a wave
    enum order_placement placement;
    const struct cost_row *costs;  // ranks * chunks rows
    uint64_t latency_ns;           // of a message from rank to rank
    uint64_t memory_bytes;         // of each rank; 0: as many as it takes
    const uint64_t *rank_memory_bytes;  // instead of that, for ranks that differ; or NULL
    enum order_objective objective;
    uint64_t budget;  // units of work; 0: ORDER_DEFAULT_BUDGET
    const volatile sig_atomic_t *interrupted;  // ends the search once it is not 0; or NULL
    void (*progress)(void *self, uint64_t units);  // so many more are done; called often; or NULL
    void *self;                                    // of progress
};

struct order_found {
    struct schedule *schedule;  // with its costs
    uint64_t time_ns;    // by the objective
    uint64_t bound_ns;   // no order takes less
    bool proved;         // time_ns is the least there is
    bool exhausted;      // by trying all that could be better; otherwise because the bound is met
    const char *method;  // what found it
    const char *stopped; // why nothing more was tried, or NULL
    uint64_t work;       // units
};

// False when there is none: ERROR_ANSWER names the rank that cannot hold even one
// micro-batch, and what it takes. Cleared by order_found_clear().
bool order_search(const struct order_request *request, struct order_found *found, struct error *error);
void order_found_clear(struct order_found *found);

// (time - bound) / time.
double order_gap(const struct order_found *found);

#endif
