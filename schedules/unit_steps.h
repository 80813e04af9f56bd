// How long a schedule takes in steps, as PyTorch's own simulator counts them: every
// action takes one, SENDs and RECVs too, nothing runs beside anything else on a
// rank, a send waits for nobody, and a RECV comes at the earliest in the step of
// its SEND. The unit of its tests and of its pass over orders; times need costs
// (simulate.h).
//
//     step     0    1        2    3
//     rank 0   0F0  0SEND_F0 0F1  0SEND_F1           4 steps
//     rank 1   .    1RECV_F0 1F0  1RECV_F1
#ifndef SCHEDULES_UNIT_STEPS_H
#define SCHEDULES_UNIT_STEPS_H

#include "schedules/schedule.h"

// A compute order is lowered first. A group takes one step; REDUCE, STEP and
// VALIDATE, which PyTorch has no actions for, take none. Fails on what cannot be
// lowered, or waits for a message that nobody sends.
bool schedule_unit_steps(const struct schedule *schedule, uint64_t *steps, struct error *error);

#endif
