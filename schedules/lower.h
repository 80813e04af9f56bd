// Adds SENDs and RECVs to a compute order.
//
// The rule is that of PyTorch (_add_send_recv). The ranks take turns. Each places its next action once the inputs of
// that action are there. When an action that produces a message is placed, its SEND follows it at once, and the
// matching RECV is appended to the peer's list in the same moment. A group is placed in one turn, with its SENDs
// behind it. A REDUCE is placed in all lists at once, when every copy of its stage has reached it.
//
// Every SEND is thus adjacent to its RECV in one order of all actions, so no order of blocking sends can deadlock
// (check.h proves this for each schedule). Moves to the host and back come right behind the computation before them,
// in front of all messages since, so that consecutive messages remain consecutive. Neighbouring stages on one rank
// exchange no messages. The positions depend on the order alone, never on costs: how many buffers a stage needs is a
// property of its schedule (slots.h).
#ifndef SCHEDULES_LOWER_H
#define SCHEDULES_LOWER_H

#include "schedules/schedule.h"

// Returns a new, lowered schedule, or NULL if the order cannot run at all. The error then names rank, position,
// action and what it waits for. Freed by schedule_free().
struct schedule *schedule_lower(const struct schedule *order, struct error *error);

// The same. It also sets `positions` (one per rank) to how far each rank came.
struct schedule *schedule_lower_to(const struct schedule *order, size_t *positions, struct error *error);

// For other ways of lowering: adds an action that is not a message to a rank's list, by the same rule.
bool lower_add(struct schedule *lowered, uint32_t rank, struct action action, struct error *error);

#endif
