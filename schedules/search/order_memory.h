// Half-made orders met before: what was done, and when everything that matters from
// there on is there. Of two with the same moves the one in which nothing is later can
// become whatever the other can.
//
//     done        2 1 0  1 1 0            F, I, W of each stage
//     moments     40 33 51                ranks free, inputs on their way
#ifndef SCHEDULES_ORDER_MEMORY_H
#define SCHEDULES_ORDER_MEMORY_H

#include "schedules/search/order_state.h"

struct order_memory;

// Keeps up to `most_bytes`, then forgets to add.
struct order_memory *order_memory_create(const struct order_problem *problem, size_t most_bytes, struct error *error);
void order_memory_free(struct order_memory *memory);
void order_memory_forget(struct order_memory *memory);

// Whether one at least as good was met before; otherwise this one is remembered.
bool order_memory_met(struct order_memory *memory, const struct order_state *state);

#endif
