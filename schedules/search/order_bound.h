// What no order beats.
//
// A rank r sees an iteration in three parts:
//
//     first F ....... first I ............ last F ....... last I ... W
//     |-- only F's can --|                    |-- only what is kept --|
//
// Between its first F and its first I lies the way of a micro-batch to the last
// stage and back, and the rank can fill it with F's only, as many as it has room
// for. Between its last F and its last I lies the same way, and it can fill that
// with I's and W's only, of micro-batches that it keeps. What it cannot fill is
// lost; all else it does can at best be done without a pause. The way from the last I
// of r to the end of another rank is added where that rank's end is asked for.
//
// The first part is the bound of the zero-bubble papers (their appendix B), for
// stages that differ; the second is its mirror image. With one stage per rank two
// more things are known: the first part is sharper, since F's come whole
// (order_start.h); and a rank with room for k micro-batches goes round and round,
// F of i + k not before the I of i has ended.
#ifndef SCHEDULES_ORDER_BOUND_H
#define SCHEDULES_ORDER_BOUND_H

#include "schedules/search/order_problem.h"

bool order_bound(const struct order_problem *problem, uint64_t *bound_ns, struct error *error);

// What each rank may lose before its first I in an order that takes `time_ns`; not below the bound.
void order_slack(const struct order_problem *problem, uint64_t time_ns, uint64_t *slack_ns);

#endif
