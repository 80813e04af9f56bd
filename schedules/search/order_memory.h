// A memory of partial orders that were met before (memoization with dominance). An entry has the moves made, and
// when everything that matters from there on is available. If two partial orders have the same moves, and nothing is
// later in the first, the first dominates: it can become whatever the other can become.
//
//     done        2 1 0  1 1 0            F, I, W of each stage
//     moments     40 33 51                ranks free, inputs on their way
#ifndef SCHEDULES_ORDER_MEMORY_H
#define SCHEDULES_ORDER_MEMORY_H

#include "schedules/search/order_state.h"

struct order_memory;

// Stores up to `most_bytes`; after that nothing more is added. Freed by order_memory_free().
struct order_memory *order_memory_create(const struct order_problem *problem, size_t most_bytes, struct error *error);
void order_memory_free(struct order_memory *memory);
void order_memory_forget(struct order_memory *memory);

// Whether a partial order at least as good was met before. If not, adds this one.
bool order_memory_met(struct order_memory *memory, const struct order_state *state);

#endif
