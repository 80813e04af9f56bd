// How many forwards each rank does before its first I. The way of the first
// micro-batch to the last stage and back is rarely a whole number of forwards:
//
//     rank r   F0 F1 F2 ·|I0          waits, and loses the rest of its own time
//     rank r   F0 F1 F2 F3|I0         does one more, and I0 comes later to all ranks before
//
// A rank that may lose `slack_ns` waits where the rest is no more than that.
#ifndef SCHEDULES_ORDER_START_H
#define SCHEDULES_ORDER_START_H

#include "schedules/search/order_problem.h"

// One stage per rank only. Fills `ahead` (per rank) unless it is NULL. False where some rank loses more than
// `slack_ns`, however it is done (`ahead` is filled nevertheless).
bool order_start(const struct order_problem *problem, const uint64_t *slack_ns, uint32_t *ahead);

#endif
