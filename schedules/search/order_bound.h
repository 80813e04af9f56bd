// A lower bound on the time of every order.
//
// The iteration of a rank r has three parts:
//
//     first F ....... first I ............ last F ....... last I ... W
//     |-- only F's can --|                    |-- only what is kept --|
//
// Between its first F and its first I, a micro-batch passes to the last stage and back. The rank can fill this time
// only with F's, as many as it has room for. Between its last F and its last I, a micro-batch takes the same way.
// The rank can fill that time only with I's and W's of micro-batches that it keeps. Time that it cannot fill is
// lost; all its other work can at best be done without a pause. For the end of another rank, the time from the last
// I of r to that end is added.
//
// The first part is the bound of the zero-bubble papers (their appendix B), for stages that differ. The second is
// its mirror image. With one stage per rank two more things are known. The first part is sharper, since only whole
// F's are possible (order_start.h). And a rank with room for k micro-batches repeats in rounds: F of i + k does not
// begin before the I of i has ended.
#ifndef SCHEDULES_ORDER_BOUND_H
#define SCHEDULES_ORDER_BOUND_H

#include "schedules/search/order_problem.h"

bool order_bound(const struct order_problem *problem, uint64_t *bound_ns, struct error *error);

// The time that each rank may lose before its first I in an order that takes `time_ns`, which must not be below the
// bound. The array `slack_ns` has an entry for each rank.
void order_slack(const struct order_problem *problem, uint64_t time_ns, uint64_t *slack_ns);

#endif
