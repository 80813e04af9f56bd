// An order that somebody gives, to be planned and run as it is: from PyTorch's file, a document, a search.
//
//     rank 0   0F0 0F1 0B1 0B0            what the file says
//     rank 0   0F0 0F1 0B1 0B0 0STEP      the order of a plan
//
// A plan needs of it what the orders of generators have: that it can run (check.h), that it flushes, its updates, and a
// name that is not a generator's, since of these more is known.
#ifndef SCHEDULES_GIVEN_ORDER_H
#define SCHEDULES_GIVEN_ORDER_H

#include "schedules/schedule.h"

// What the ranks of a schedule compute, as a plan holds it: without costs, notes, moves, and messages, which
// schedule_lower() places anew; with the updates of a flush at the end of each list where the schedule has none. A generator's name gets
// " (given)" behind it. NULL where it is no order for a plan; the error says why.
struct schedule *given_order(const struct schedule *schedule, struct error *error);

// Whether it is an order as that makes them.
bool given_order_check(const struct schedule *order, struct error *error);

#endif
