// Adds SENDs and RECVs to a compute order.
//
// The rule is PyTorch's (_add_send_recv): walk the ranks in turns, each placing
// its next action once what it needs is there; when a producing action is
// placed, its SEND follows it at once and the matching RECV is appended to the
// peer's list in the same moment. A group is placed in one turn, its SENDs behind
// it; a REDUCE in all lists at once, when every copy of its stage stands there.
// Every SEND and RECV pair is thus adjacent in one order of all actions, so no
// order of blocking sends can deadlock (check.h proves it anew for each schedule).
// What goes to the host and back stands right behind what is computed before it, in front of all messages since, so
// that messages that stand in a row still do. Neighbouring stages on one rank exchange nothing. The positions depend on
// the order alone, never on costs: how many buffers a stage needs is a property of its schedule (slots.h).
#ifndef SCHEDULES_LOWER_H
#define SCHEDULES_LOWER_H

#include "schedules/schedule.h"

// A new, lowered schedule. NULL when the order cannot be run at all; the error
// names rank, position, action and what it waits for.
struct schedule *schedule_lower(const struct schedule *order, struct error *error);

// The same, and says in `positions` (one per rank) how far each rank came.
struct schedule *schedule_lower_to(const struct schedule *order, size_t *positions, struct error *error);

// For those who lower otherwise: adds what is no message to a rank's list, likewise.
bool lower_add(struct schedule *lowered, uint32_t rank, struct action action, struct error *error);

#endif
