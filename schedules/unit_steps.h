// How long a schedule takes in steps, counted as PyTorch's own simulator does. Every action takes one step, also
// SENDs and RECVs, and nothing overlaps on a rank. A send does not wait. A RECV is at the earliest in the step of
// its SEND. Steps are the unit of PyTorch's tests and of its pass over orders; times need costs (simulate.h).
//
//     step     0    1        2    3
//     rank 0   0F0  0SEND_F0 0F1  0SEND_F1           4 steps
//     rank 1   .    1RECV_F0 1F0  1RECV_F1
#ifndef SCHEDULES_UNIT_STEPS_H
#define SCHEDULES_UNIT_STEPS_H

#include "schedules/schedule.h"

// A compute order is lowered first. A group takes one step. REDUCE, STEP and VALIDATE take none, since PyTorch has
// no such actions. Fails if the schedule cannot be lowered, or waits for a message that is never sent.
bool schedule_unit_steps(const struct schedule *schedule, uint64_t *steps, struct error *error);

#endif
