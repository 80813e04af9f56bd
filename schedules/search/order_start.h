// The number of forwards of each rank before its first I. The time for the first micro-batch to reach the last stage
// and come back is rarely a whole number of forwards:
//
//     rank r   F0 F1 F2 ·|I0          waits, and loses the rest of its own time
//     rank r   F0 F1 F2 F3|I0         does one more, and I0 comes later to all ranks before
//
// A rank that may lose `slack_ns` waits if the rest is no more than that.
#ifndef SCHEDULES_ORDER_START_H
#define SCHEDULES_ORDER_START_H

#include "schedules/search/order_problem.h"

// For one stage per rank only. Fills `ahead` (per rank) unless it is NULL. Returns false if some rank loses more
// than `slack_ns` in any case (`ahead` is filled nevertheless).
bool order_start(const struct order_problem *problem, const uint64_t *slack_ns, uint32_t *ahead);

#endif
