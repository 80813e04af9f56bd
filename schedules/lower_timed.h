// A third way to place receives: at the time when their message is made.
//
//     rank 0   0F0 0SEND_F0  0F1 0SEND_F1 ...
//     rank 1          1RECV_F0 1F0    2B7 ...     the RECV is posted with whatever runs then, or comes next
//
// Early receives (lower.h) delay the sends behind them if messages share a lane (lane_world.h). Late ones
// (lower_late.h) may come to wait for each other. Here the order is simulated, and everything is placed in the order
// in which it ends. A computation is followed by its SENDs; their RECVs are placed in the same moment, at the ends
// of the peers' lists.
//
// Every SEND is thus adjacent to its RECV in one order of all actions. Therefore no rendezvous can deadlock, one
// communicator is enough for a pair of ranks, and a lane reaches each message when it is about to be made.
#ifndef SCHEDULES_LOWER_TIMED_H
#define SCHEDULES_LOWER_TIMED_H

#include "schedules/network.h"
#include "schedules/schedule.h"

// Returns a new, lowered schedule, placed by these costs (NULL: the order's own). `network` NULL: messages take no
// time. Fails like the simulation: if the order cannot run, or if there are no costs. Freed by schedule_free().
struct schedule *schedule_lower_timed(const struct schedule *order, const struct cost_row *costs,
                                      const struct network *network, struct error *error);

#endif
