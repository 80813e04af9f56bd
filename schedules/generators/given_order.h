// An order from outside, planned and run as it is: from PyTorch's file, a document, or a search.
//
//     rank 0   0F0 0F1 0B1 0B0            what the file says
//     rank 0   0F0 0F1 0B1 0B0 0STEP      the order of a plan
//
// A plan needs the same properties as an order from a generator has. The order must be able to run (check.h), flush,
// and have its updates. Its name must not be that of a generator, since more is known of generators' orders.
#ifndef SCHEDULES_GENERATORS_GIVEN_ORDER_H
#define SCHEDULES_GENERATORS_GIVEN_ORDER_H

#include "schedules/schedule.h"

// The compute order of a schedule, in the form that a plan holds. It has no costs, notes, moves, or messages
// (schedule_lower() adds messages again). If the schedule has no updates, those of a flush are added at the end of
// each list. A generator's name gets the suffix " (given)". Returns NULL if the order is unsuitable for a plan; the
// error says why. Freed by schedule_free().
struct schedule *given_order(const struct schedule *schedule, struct error *error);

// Whether it is an order in the form that given_order() makes.
bool given_order_check(const struct schedule *order, struct error *error);

#endif
